# SPDX-License-Identifier: Apache-2.0
"""A release's own scheduler and cache manager, driven by a worker that keeps token
prefixes where a GPU keeps states.

The scheduler, the manager, the coordinator and the block pool are the release's. Only
the model is not there: the worker writes into each block *which tokens* a real one
would have computed there, so that what a request finds in its blocks can be compared
with what it must find.
"""

import contextlib
import dataclasses
import inspect
import itertools
import zlib
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from vllm import config as settings
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
    SlidingWindowSpec,
)
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from prefix_cache import runners
from prefix_cache.runners import source

#: Cache groups: the model's attention, its states, and a drafter's own attention.
ATTENTION, MAMBA, DRAFTER = 0, 1, 2
#: Few words, so that histories meet again after they have parted.
VOCABULARY = 3


def has(text: str, *forms: str) -> bool:
    """Return whether a release's source has the first form of a fact, not another.

    Raises:
        LookupError: It has none, so that the fact must be looked up again.
    """
    for form in forms:
        if form in text:
            return form == forms[0]
    raise LookupError(f"the release's source has none of {', '.join(forms)}")


#: Where a release's worker keeps the running state: in the block of the step's last
#: token, or (v0.16.0) in the last of the table before those for drafts.
STATE_FOLLOWS_TOKENS = has(
    source("v1/worker/mamba_utils.py"),
    "req_state.num_computed_tokens + num_scheduled_tokens",
    "curr_state_idx = num_blocks - 1 - num_speculative_blocks",
)
#: v0.16.0 does not start with prefix caching of these models beside MTP, and switches
#: async scheduling off.
NO_DRAFTS = has(
    source("model_executor/models/config.py"),
    "assert not vllm_config.speculative_config",
    "Chunked prefill is required",
)
#: Where a scheduler is told that another data parallel rank decodes.
GATES = "throttle_prefills" in inspect.signature(Scheduler.schedule).parameters
#: How a release plans several block sizes.
PLANS = has(
    source("v1/engine/core.py"),
    "resolve_kv_cache_block_sizes",
    "scheduler_block_size = (",
)
_GROUPS = source("v1/core/kv_cache_utils.py") + source("v1/core/kv_cache_planning.py")
#: It tells which group holds MTP's layer; others take every group for one.
KNOWS_MTP = "use_trailing_layer_fallback" in _GROUPS or (
    PLANS and has(_GROUPS, "draft_layer_names", "_annotate_eagle_groups")
)


class WrongCache(AssertionError):
    """A request found in its blocks what is not its own past, or a block was in use
    twice or lost.
    """


@dataclass(frozen=True)
class Setting:
    """What a user chooses.

    Attributes:
        mtp: Drafted tokens.
        block_size: Of the model's attention and states, in tokens.
        blocks: Of all groups together.
        batched_tokens: At most, in a step; ``chunk``: of one prompt (0: no limit).
        requests: At most, in a step.
        ahead: Scheduling ahead (async scheduling).
        drafter: The block size of a drafter that has attention of its own (0: MTP, or
            no drafts), and its window, in tokens (0: it sees all).
        unit: ``--prefix-match-unit`` (0: not given).
        v2: The model runner (None: what the release takes).
        ranks: Data parallel ranks: above 1, steps begin without new prompts now and
            then, because another rank decodes.
        grammar: Whether one takes a request's drafts away now and then.
        longest: Of a request, in tokens.
    """

    mtp: int
    block_size: int = 4
    blocks: int = 64
    batched_tokens: int = 32
    requests: int = 4
    ahead: bool = False
    chunk: int = 0
    drafter: int = 0
    window: int = 0
    unit: int = 0
    v2: bool | None = None
    ranks: int = 1
    grammar: bool = False
    longest: int = 512

    @property
    def served(self) -> bool:
        """Whether the release starts a server with it."""
        if (self.drafter or self.unit) and not PLANS:
            return False
        known = settings.CacheConfig.__annotations__
        if self.unit and "prefix_match_unit" not in known:
            return False
        if NO_DRAFTS and (self.mtp or self.ahead):
            return False
        try:
            _scheduler(self)
        except AssertionError as refusal:
            # v0.26.0 hashes by the common multiple of the groups' blocks if one is
            # smaller than that of the states, and ends because it divides none.
            if "hash_block_size" not in str(refusal):
                raise
            return False
        return True

    @property
    def on_v2(self) -> bool:
        """Whether the V2 runner serves it: DSpark and mixed DFlash are V2's alone."""
        if self.v2 is not None:
            return self.v2
        return runners.IS_V2 or (runners.HAS_V2 and bool(self.drafter))


class Past:
    """Token prefixes as numbers: equal numbers are equal tokens from the first on."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], int] = {}
        self.length = [0]

    def after(self, past: int, token: int) -> int:
        """The prefix ``past`` with one more token."""
        known = self._known.setdefault((past, token), len(self.length))
        if known == len(self.length):
            self.length.append(self.length[past] + 1)
        return known

    def of(self, tokens: Sequence[int], past: int = 0) -> list[int]:
        """The prefixes of a text behind one: of no token, of the first, and so on."""
        return [*itertools.accumulate(tokens, self.after, initial=past)]


def next_token(past: int) -> int:
    """What the model says after a prefix: always the same, and it depends on all of
    it.
    """
    return zlib.crc32(past.to_bytes(4, "little")) % VOCABULARY


@dataclass
class _Running:
    """What the worker knows of a request.

    Attributes:
        computed: Tokens; ``prefill``: those that were known when it (re)started.
        blocks: By group.
        column: The block of its table that holds the running state, the first of those
            for drafts; -1: none. ``accepted``: of the last step, so that the state is
            ``accepted - 1`` columns further.
    """

    tokens: list[int]
    past: list[int]
    computed: int
    prefill: int
    blocks: list[list[int]]
    column: int
    accepted: int = 1
    drafts: list[int] = field(default_factory=list)


class Engine:
    def __init__(self, setting: Setting) -> None:
        init_none_hash(sha256)
        self.setting = setting
        self.scheduler = _scheduler(setting)
        self.past = Past()
        self.rows = None if setting.on_v2 else runners.Rows(setting.ahead)
        self.steps = 0
        self.attention: dict[int, list[int]] = {}
        self.mamba: dict[int, int] = {}
        self.worker: dict[str, _Running] = {}
        self.requests: dict[str, Request] = {}
        self.hit_tokens = 0
        self._seen: set[str] = set()
        self._in_flight: deque[tuple[Any, ModelRunnerOutput]] = deque()
        # v0.33.0 hashes one token more with each block, so that a draft's last key may
        # be taken over as well.
        lookahead = getattr(self.scheduler, "num_hash_lookahead_tokens", 0)
        self._hasher = get_request_block_hasher(
            self.scheduler.kv_cache_manager.block_pool.hash_block_size,
            sha256,
            *([lookahead] if lookahead else []),
        )

    def add(self, prompt: Sequence[int], length: int) -> str:
        name = f"r{len(self.requests)}"
        facts = {"pooling_params": None, "block_hasher": self._hasher}
        if "eos_token_id" in Request.__init__.__annotations__:
            facts["eos_token_id"] = None
        sampling = SamplingParams(temperature=0, max_tokens=length, ignore_eos=True)
        request = self.requests[name] = Request(name, [*prompt], sampling, **facts)
        self.scheduler.add_request(request)
        return name

    @property
    def busy(self) -> bool:
        return bool(self._in_flight) or self.scheduler.has_requests()

    @property
    def prompt_tokens(self) -> int:
        return sum(request.num_prompt_tokens for request in self.requests.values())

    def finish(self, accepted: int = 0) -> None:
        """Step until nothing is left to do; every block must be free then, and every
        answer that of k = 0.

        Raises:
            WrongCache: as ``step``; or the requests do not end, a block is lost, or an
                answer is another.
        """
        for _ in range(5000):
            if not self.busy:
                break
            self.step(accepted)
        pool = self.scheduler.kv_cache_manager.block_pool
        if self.busy or pool.get_num_free_blocks() != len(pool.blocks) - 1:
            raise WrongCache(
                "requests do not end" if self.busy else "blocks are held by nobody"
            )
        for name in self.requests:
            self.check_answer(name)

    def check_answer(self, name: str) -> None:
        """Compare a request's tokens with what the model says after its prompt without
        drafts.

        Raises:
            WrongCache: they differ, or there are fewer or more than were asked for.
        """
        request = self.requests[name]
        answer = list(request.output_token_ids)
        past = self.past.of(request.all_token_ids)[request.num_prompt_tokens :]
        for number, (before, token) in enumerate(zip(past, answer, strict=False)):
            if token != next_token(before):
                raise WrongCache(f"{name}: token {number} is not that of k = 0")
        if len(answer) != request.max_tokens:
            raise WrongCache(
                f"{name}: {len(answer)} tokens, {request.max_tokens} were asked for"
            )

    def step(self, accepted: int) -> None:
        """One step of the engine, in which at most ``accepted`` drafted tokens of a
        request are right.

        Raises:
            WrongCache: a request would compute from what is not its own past, or a
                block is not counted right.
        """
        self.steps += 1
        gated = GATES and self.setting.ranks > 1 and self.steps % 3 == 1
        output = self.scheduler.schedule(*([True] if gated else []))
        self._check_blocks()
        self._in_flight.append((output, self._execute(output, accepted)))
        # Scheduling ahead, the scheduler plans a step before it has learnt what came
        # out of the last one.
        while self._in_flight and (
            len(self._in_flight) > int(self.setting.ahead)
            or not output.total_num_scheduled_tokens
        ):
            self._settle(*self._in_flight.popleft())

    def _settle(self, output: Any, result: ModelRunnerOutput) -> None:
        self.scheduler.update_from_output(output, result)
        if not self.setting.ahead and self.setting.mtp:
            names = [name for name in result.req_ids if name in self.worker]
            takes = self.setting.grammar
            kept = [
                []
                if takes and (self.steps + row) % 4 == 0
                else self.worker[name].drafts
                for row, name in enumerate(names)
            ]
            self.scheduler.update_draft_token_ids(DraftTokenIds(names, kept))

    # The worker

    def _execute(self, output: Any, accepted: int) -> ModelRunnerOutput:
        for name in [*output.finished_req_ids, *(output.preempted_req_ids or ())]:
            self.worker.pop(name, None)
        for new in output.scheduled_new_reqs:
            self._start(new.req_id, new.num_computed_tokens, new.block_ids)
            # Newer workers are told of a resumed request as of a new one.
            if new.req_id not in self._seen:
                self._seen.add(new.req_id)
                self.hit_tokens += new.num_computed_tokens
        cached = output.scheduled_cached_reqs
        for name, computed, blocks in zip(
            cached.req_ids,
            cached.num_computed_tokens,
            cached.new_block_ids,
            strict=True,
        ):
            if name in cached.resumed_req_ids:
                self._start(name, computed, blocks)
                continue
            for own, more in zip(self.worker[name].blocks, blocks or (), strict=False):
                own.extend(more)
        for copy in getattr(output, "kv_cache_block_copies", None) or ():
            old, new = copy.src_block_id, copy.dst_block_id
            if old in self.attention:
                self.attention[new] = list(self.attention[old])
            if old in self.mamba:
                self.mamba[new] = self.mamba[old]
        scheduled = output.num_scheduled_tokens
        names = list(scheduled)
        drafted = {
            name: len(output.scheduled_spec_decode_tokens.get(name, ()))
            for name in names
        }
        if self.rows is not None:
            # Whether the counts of the last step arrive late is not ours to say.
            late = zlib.crc32(bytes([self.steps % 256])) % 2 == 1
            prompts = {
                name
                for name in names
                if self.worker[name].computed < self.worker[name].prefill
            }
            for name, count in self.rows.begin(names, prompts, late).items():
                self.worker[name].accepted = count
        # Requests run side by side: a state must be there before the step. Keys and
        # values of a token may come in the same step, because each layer writes all of
        # them before it reads.
        self._move_states(names, scheduled)
        rows = self._rows_with_drafts(names, scheduled, drafted)
        for name in names:
            self._check_state(name, name in rows)
        sampled = [
            self._forward(name, scheduled[name], drafted[name], name in rows, accepted)
            for name in names
        ]
        for name in names:
            self._check_attention(name)
        if self.rows is not None:
            self.rows.end({name: self.worker[name].accepted for name in names})
        return ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=sampled,
            prompt_logprobs_dict={},
            pooler_output=[],
        )

    def _start(self, name: str, computed: int, blocks: Sequence[Sequence[int]]) -> None:
        size, tokens = self.setting.block_size, [*self.requests[name].all_token_ids]
        if self.setting.on_v2 and not runners.seeds_by_the_state():
            size = min(size, self.setting.drafter or size)
        self.worker[name] = _Running(
            tokens,
            self.past.of(tokens),
            computed,
            len(tokens),
            [list(ids) for ids in blocks],
            (computed - 1) // size,
        )

    def _state(self, name: str, column: int) -> int | None:
        blocks = self.worker[name].blocks[MAMBA]
        return self.mamba.get(blocks[column]) if 0 <= column < len(blocks) else None

    def _move_states(self, names: Sequence[str], scheduled: dict[str, int]) -> None:
        """Before a step: a state goes to the block of the step's last token."""
        size, moved = self.setting.block_size, []
        for name in names:
            own = self.worker[name]
            new = (
                (own.computed + scheduled[name] - 1) // size
                if STATE_FOLLOWS_TOKENS
                else len(own.blocks[MAMBA]) - 1 - self.setting.mtp
            )
            if own.column >= 0 and own.column != new:
                state = self._state(name, own.column + own.accepted - 1)
                moved.append((own.blocks[MAMBA][new], state))
                own.accepted = 1
            own.column = new
        for block, state in moved:  # all are read before the first is written
            self.mamba.pop(block, None)
            if state is not None:
                self.mamba[block] = state

    def _rows_with_drafts(
        self, names: Sequence[str], scheduled: dict[str, int], drafted: dict[str, int]
    ) -> set[str]:
        """The requests whose state is looked for behind the accepted tokens of their
        last step; those of the others, in the first column.
        """
        found = set[str]()
        if not (runners.COUNTS_WITHOUT_DRAFTS or any(drafted.values())):
            return found
        for name in names:
            own = self.worker[name]
            decodes = own.computed >= own.prefill
            if self.setting.on_v2:
                counts = drafted[name] or runners.reads_accepted_without_drafts()
                right = decodes and counts
            else:
                right = drafted[name] and scheduled[name] == drafted[name] + 1
                right = right or (runners.V1_COUNTS_ALL and decodes)
            if right:
                found.add(name)
        return found

    def _check_attention(self, name: str) -> None:
        own = self.worker[name]
        for group, size in self._attention_groups():
            window = self.setting.window if group == DRAFTER else 0
            begin = max(0, own.computed - window) if window else 0
            for start in range(begin // size * size, own.computed, size):
                end = min(start + size, own.computed)
                held = self.attention.get(own.blocks[group][start // size], [])
                first = max(start, begin)
                tokens = held[first - start : end - start]
                if tokens != own.past[first + 1 : end + 1]:
                    whose = "the drafter's attention" if group else "attention"
                    raise WrongCache(
                        f"{name}: {whose} at {first} to {end} of {own.computed} "
                        "is not of its own past"
                    )

    def _attention_groups(self) -> list[tuple[int, int]]:
        drafter = self.setting.drafter
        own = (ATTENTION, self.setting.block_size)
        return [own, (DRAFTER, drafter)] if drafter else [own]

    def _check_state(self, name: str, behind_accepted: bool) -> None:
        own = self.worker[name]
        if not own.computed:
            return
        behind = own.accepted - 1 if behind_accepted else 0
        state = self._state(name, own.column + behind)
        if state != own.past[own.computed]:
            what = "none" if state is None else f"one after {self.past.length[state]}"
            same = state is not None and state in own.past
            raise WrongCache(
                f"{name}: the state after {own.computed} tokens is {what}"
                f"{' of them' if same else ''}"
            )

    def _forward(
        self, name: str, scheduled: int, drafted: int, counts: bool, accepted: int
    ) -> list[int]:
        own = self.worker[name]
        start, sure = own.computed, own.computed + scheduled - drafted
        if sure > len(own.tokens):
            raise WrongCache(
                f"{name}: {sure} tokens were to be computed, "
                f"{len(own.tokens)} are known"
            )
        written = own.past[: sure + 1]
        # Where the scheduler asks for more drafts than there are, it pads: these are
        # never right.
        drafts = [*own.drafts[:drafted], *[-1] * (drafted - len(own.drafts))]
        written += self.past.of(drafts, written[-1])[1:]
        for group, size in self._attention_groups():
            for position in range(start, len(written) - 1):
                block = own.blocks[group][position // size]
                held = self.attention.setdefault(block, [0] * size)
                held.extend([0] * (size - len(held)))
                held[position % size] = written[position + 1]
        states, size = own.blocks[MAMBA], self.setting.block_size
        for offset in range(drafted + 1):
            self.mamba[states[own.column + offset]] = written[sure + offset]
        own.accepted = 1
        if sure < len(own.tokens):  # a part of the prompt
            own.computed = sure
            return []
        sampled = [next_token(own.past[-1])]
        while len(sampled) <= drafted and drafts[len(sampled) - 1] == sampled[-1]:
            sampled.append(next_token(written[sure + len(sampled)]))
        own.past += self.past.of(sampled, own.past[-1])[1:]
        own.tokens += sampled
        own.computed = sure + len(sampled) - 1
        own.accepted = len(sampled)
        # After a step: a block that became full in it keeps the state at its end.
        boundary = own.computed // size * size
        if self.setting.mtp and boundary >= sure:
            state = self._state(name, own.column + boundary - sure)
            assert state is not None
            self.mamba[states[boundary // size - 1]] = state
            if boundary // size - 1 == own.column:
                own.accepted = 1
        own.drafts = self._drafts(own.past[-1], accepted)
        return sampled

    def _drafts(self, past: int, right: int) -> list[int]:
        drafts = []
        for number in range(self.setting.mtp):
            token = next_token(past)
            drafts.append(token if number < right else (token + 1) % VOCABULARY)
            past = self.past.after(past, drafts[-1])
        return drafts

    # The manager

    def _check_blocks(self) -> None:
        """Each block is free or held, as often as the requests' tables say."""
        manager = self.scheduler.kv_cache_manager
        pool = manager.block_pool
        held = Counter[int]()
        for single in manager.coordinator.single_type_managers:
            for blocks in single.req_to_blocks.values():
                held.update(block.block_id for block in blocks if not block.is_null)
        for block in pool.blocks:
            uses = held[block.block_id]
            if not block.is_null and block.ref_cnt != uses:
                raise WrongCache(
                    f"block {block.block_id}: {uses} uses, counted {block.ref_cnt}"
                )
        free = {block.block_id for block in pool.free_block_queue.get_all_free_blocks()}
        if both := sorted(free & held.keys()):
            raise WrongCache(f"blocks {both} are free and in use")
        if lost := len(pool.blocks) - 1 - len(free) - len(held):
            raise WrongCache(f"{lost} blocks are lost")


class _Model(SimpleNamespace):
    """The few facts that a scheduler asks of the model's configuration; what is not
    named here is off.
    """

    def __getattr__(self, name: str) -> None:
        return None


def _scheduler(setting: Setting) -> Scheduler:
    size = setting.block_size
    chosen = settings.SchedulerConfig(
        max_num_seqs=setting.requests,
        max_num_batched_tokens=setting.batched_tokens,
        long_prefill_token_threshold=setting.chunk,
        max_model_len=setting.longest,
        enable_chunked_prefill=True,
        async_scheduling=setting.ahead,
        is_encoder_decoder=False,
    )
    cache = settings.CacheConfig(
        block_size=size, enable_prefix_caching=True, mamba_cache_mode="align"
    )
    cache.num_gpu_blocks, cache.mamba_block_size = setting.blocks, size
    # As the engine has it: the smallest of all groups.
    cache.block_size = min(size, setting.drafter or size)
    if setting.unit:
        cache.prefix_match_unit = setting.unit
    speculative = None
    if setting.mtp:
        speculative = settings.SpeculativeConfig(
            model="ngram",
            num_speculative_tokens=setting.mtp,
            prompt_lookup_max=2,
            prompt_lookup_min=1,
        )
        speculative.method = "dflash" if setting.drafter else "mtp"
    model = _Model(
        architectures=["Qwen3_5ForConditionalGeneration"],
        max_model_len=setting.longest,
        runner_type="generate",
        is_hybrid=True,
        skip_tokenizer_init=True,
    )
    facts = {
        "model_config": model,
        "scheduler_config": chosen,
        "cache_config": cache,
        "speculative_config": speculative,
        "parallel_config": settings.ParallelConfig(),
    }
    whole = object.__new__(settings.VllmConfig)
    for name, value in {**_defaults(settings.VllmConfig), **facts}.items():
        object.__setattr__(whole, name, value)
    full = {"num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
    specs = {
        "attention": FullAttentionSpec(block_size=size, **full),
        "mamba": MambaSpec(
            block_size=size,
            shapes=((1,),),
            dtypes=(torch.float32,),
            mamba_cache_mode="align",
            num_speculative_blocks=setting.mtp,
        ),
    }
    if setting.drafter:
        full |= {"sliding_window": setting.window} if setting.window else {}
        kind = SlidingWindowSpec if setting.window else FullAttentionSpec
        specs["drafter"] = kind(block_size=setting.drafter, **full)
    groups = [KVCacheGroupSpec([name], spec) for name, spec in specs.items()]
    if setting.mtp and not setting.drafter and KNOWS_MTP:
        groups[ATTENTION].is_eagle_group = True
    # As the engine plans it: from v0.29.0 on, which states are kept is a setting, and
    # the default is "few".
    kept = {}
    if "prefix_cache_retention_interval" in KVCacheConfig.__annotations__:
        kept["prefix_cache_retention_interval"] = cache.prefix_cache_retention_interval
    with contextlib.suppress(ImportError):  # of releases before it
        from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs

        register_all_kvcache_specs(whole)
    planned = KVCacheConfig(
        num_blocks=setting.blocks, kv_cache_tensors=[], kv_cache_groups=groups, **kept
    )
    sizes = {"block_size": size}
    if PLANS:
        from vllm.v1.core.kv_cache_utils import resolve_kv_cache_block_sizes

        size, hashed = resolve_kv_cache_block_sizes(planned, whole)
        sizes = {"block_size": size, "hash_block_size": hashed}
    return (AsyncScheduler if setting.ahead else Scheduler)(
        vllm_config=whole,
        kv_cache_config=planned,
        **sizes,
        log_stats=True,
        structured_output_manager=StructuredOutputManager(whole),
        mm_registry=SimpleNamespace(supports_multimodal_inputs=lambda model: False),
    )


def _defaults(kind: Any) -> dict[str, Any]:
    values = {}
    for entry in dataclasses.fields(kind):
        # pydantic's own Field stands where the default does.
        default: Any = entry.default
        field = default if hasattr(default, "default_factory") else entry
        values[entry.name] = field.default
        if callable(field.default_factory):
            try:
                values[entry.name] = field.default_factory()
            except RuntimeError:  # the device, where there is none
                values[entry.name] = None
    return values
