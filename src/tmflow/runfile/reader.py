"""Reads and checks lines of run files; what many runs share is checked once, and serialised once for their hashes.

Most lines repeat parts of earlier lines: the machine, its settings, the software, the experiment, the spec. A line is
decoded into a struct that keeps these parts as undecoded bytes; parts with equal bytes are equal. If the struct refuses
a line, or its parts are new, the model checks the entire line.

msgspec decodes JSON to structs many times as fast as closed pydantic models do. The structs are derived from the
models, so there is one schema. A model accepts everything that its struct accepts, with the same values. A struct
accepts less: no true for 1, no 1.0 for an integer, and only fields that were added later may be omitted. If the struct
refuses, the model decides, and its error says what is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, MinLen
from msgspec import NODEFAULT, DecodeError, Meta, Raw, Struct, defstruct, field
from msgspec.json import Decoder
from msgspec.structs import asdict
from pydantic import BaseModel, FailFast, ValidationError

from tmflow.base.canonical_json import sha256_of
from tmflow.base.documents import first_of
from tmflow.base.errors import BadInput
from tmflow.runfile import content_hash, record
from tmflow.runfile.record import BACKENDS, EnvironmentFacts, MachineState, PlatformFacts, Run

Rule = Callable[[Any], Any]

# A struct cannot check other settings and constraints.
_CONFIG = {"extra": "forbid", "frozen": True, "allow_inf_nan": False}  # JSON has neither of these numbers
_CONSTRAINTS = {Ge: "ge", Gt: "gt", Le: "le", MinLen: "min_length"}

NOTHING = Raw(b"null")


@cache
def struct_of(model: type[BaseModel], raw: tuple[str, ...] = ()) -> type[Struct]:
    """The struct of a model, its fields in alphabetical order; raises TypeError if it cannot check what the model does.

    Its `FLOATS` are the fields that may hold a float. The `raw` fields stay undecoded. If there are any, the struct
    does not check the rules of the model (`rules_of`), which may need these fields.
    """
    rules = rules_of(model)
    if model.model_config != _CONFIG:
        raise TypeError(f"{model.__name__} is configured in a way that no struct is: {model.model_config}")
    later = getattr(model, "LATER", ())  # only fields that were added later may be omitted
    fields, floats = [], []
    for name, info in sorted(model.model_fields.items()):
        default: Any = NODEFAULT
        if name in later:
            default = NOTHING if name in raw else field(default_factory=list) if info.default == [] else info.default
        fields.append((name, Raw if name in raw else _type_of(info.annotation, info.metadata), default))
        if float in (info.annotation, *get_args(info.annotation)):
            floats.append(name)

    def check(struct: Any) -> None:
        for rule in rules:
            rule(struct)

    return defstruct(
        model.__name__,
        fields,
        namespace={"FLOATS": tuple(floats)} | ({"__post_init__": check} if rules and not raw else {}),
        kw_only=True,
        forbid_unknown_fields=True,
        omit_defaults=True,  # as the hash of a run omits fields that were added later
        gc=False,
    )


def rules_of(model: type[BaseModel]) -> list[Rule]:
    """The validators of a model as a whole, which raise ValueError. Raises TypeError if it has other validators."""
    decorators = model.__pydantic_decorators__
    rules = decorators.model_validators.values()
    others = decorators.validators, decorators.field_validators, decorators.root_validators
    if any(others) or any(rule.info.mode != "after" for rule in rules):
        raise TypeError(f"{model.__name__} has rules that run before there are values; a struct has none")
    return [rule.func for rule in rules]


def _type_of(wanted: Any, metadata: Iterable[Any] = ()) -> Any:
    """The type of a field with its constraints; `FailFast` is not a constraint."""
    constraints = {}
    for one in metadata:
        if type(one) in _CONSTRAINTS:
            name = _CONSTRAINTS[type(one)]
            constraints[name] = getattr(one, name)
        elif type(one) is not FailFast:
            raise TypeError(f"a struct cannot check {one}")
    args = get_args(wanted)
    if get_origin(wanted) in (Union, UnionType):
        return Union[tuple(_type_of(one, metadata) for one in args)]  # noqa: UP007  # `|` takes no tuple
    if wanted is NoneType:
        return None
    if wanted in (int, float, str):
        return Annotated[wanted, Meta(**constraints)] if constraints else wanted
    if not constraints:
        if wanted is bool or get_origin(wanted) is Literal:
            return wanted
        if get_origin(wanted) is list:
            return list[_type_of(args[0])]  # type: ignore[misc]  # a type that is made here
        if isinstance(wanted, type) and issubclass(wanted, BaseModel):
            return struct_of(wanted)
    raise TypeError(f"a struct cannot have a {wanted} of {constraints}")


ORIGIN = ("backend", "campaign", "environment", "experiment", "platform", "software")
SPEC = ("spec",)
REMEMBERED_BYTES = 8 << 20  # a study has half a megabyte; each line of an untrusted file may have new parts

_NO_LISTS: dict[str, Any] = {name: [] for name in content_hash.LISTS}
# For each list, the fields that together identify an entry.
_KEYS = {name: attrgetter(*key) for name, key in content_hash.LISTS.items()}
_RULES = rules_of(Run)
_LINES: Decoder[Struct] = Decoder(struct_of(Run, (*ORIGIN, *SPEC)))
_PARTS: Decoder[Struct] = Decoder(defstruct("Parts", [(name, Raw, NOTHING) for name in (*ORIGIN, *SPEC)]))

Text = tuple[bytes, ...]


@dataclass(frozen=True, eq=False)
class Shared:
    """Checked fields that runs share, and their serialised form in the hashes.

    `run` is the first run that has them, without its lists, which may be long.
    """

    run: Run
    fields: dict[str, Any]
    serialised: dict[str, Raw]


class ReadRun(NamedTuple):
    """A checked run without its lists, and what it shares with others. `lists`: the non-empty ones, by name."""

    run: Run
    lists: dict[str, Sequence[Any]]
    origin: Shared
    spec: Shared


class Reader:
    """Reads and checks lines of run files, and remembers what they share."""

    def __init__(self) -> None:
        self._shared: dict[Text, Shared] = {}
        self._remembered = 0
        self._last: tuple[Text, Shared] | None = None

    def read(self, line: str, where: str) -> ReadRun:
        """Read a line of a run file, and check everything that the tables require; errors name it by `where`.

        Raises BadInput for the first fault.
        """
        try:
            read = self._read_remembered(line) or self._read_entirely(line, where)
            _check_evidence(read.run, where)
        except ValueError as error:  # of 1e400, which is read as infinite
            raise BadInput(f"{where}: a number is not valid JSON: {error}.") from error
        _check_time(read.run.started_at_utc, f"{where}: started_at_utc")
        for name, entries in read.lists.items():
            _check_unique(where, name, list(map(_KEYS[name], entries)))
        _check_unique(where, "fused", read.run.fused)
        return read

    def _read_remembered(self, line: str) -> ReadRun | None:
        """Read a line whose parts are known; None if they are not, or the model has to check the line."""
        try:
            fields = asdict(_LINES.decode(line))
            origin, spec = self._last_or_shared(_text(fields, ORIGIN)), self._shared[_text(fields, SPEC)]
            lists = _lists(fields)
            machine = fields["machine"] and MachineState.model_validate(asdict(fields["machine"]))
            run = origin.run.model_copy(update=fields | _NO_LISTS | origin.fields | spec.fields | {"machine": machine})
            for rule in _RULES:
                rule(run)
        except (KeyError, DecodeError, RecursionError, ValueError):
            return None
        return ReadRun(run, lists, origin, spec)

    def _last_or_shared(self, text: Text) -> Shared:
        """The shared fields with this text; most lines repeat those of the previous one, and hashing is slower."""
        if self._last is None or self._last[0] != text:
            self._last = text, self._shared[text]
        return self._last[1]

    def _read_entirely(self, line: str, where: str) -> ReadRun:
        """Have the model check a line, and remember its parts."""
        run = record.parse_line(line, where)
        try:
            parts = asdict(_PARTS.decode(line))
        except DecodeError:  # the model's parser accepts more; then the entire line stands for its parts
            parts = dict.fromkeys((*ORIGIN, *SPEC), line.encode())
        origin, spec = (self._remember(_text(parts, names), run, names, where) for names in (ORIGIN, SPEC))
        return ReadRun(run.model_copy(update=_NO_LISTS), _lists(vars(run)), origin, spec)

    def _remember(self, text: Text, run: Run, names: Iterable[str], where: str) -> Shared:
        """The shared fields with this text; they are those of `run` if the text is new."""
        if (shared := self._shared.get(text)) is not None:
            return shared
        if names == ORIGIN:
            _check_origin(run, where)
        fields = {name: getattr(run, name) for name in names}
        hashed = fields.keys() & content_hash.hashed_fields(run).keys()
        serialised = {name: content_hash.serialise(fields[name]) for name in hashed}
        self._remembered += (n_bytes := sum(map(len, text)))
        if self._remembered > REMEMBERED_BYTES:
            self._shared.clear()
            self._remembered = n_bytes
        shared = self._shared[text] = Shared(run.model_copy(update=_NO_LISTS), fields, serialised)
        return shared


def _text(parts: Mapping[str, Any], names: Iterable[str]) -> Text:
    """The bytes of these parts, as they are in the line."""
    return tuple(bytes(parts[name]) for name in names)


def _lists(fields: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    return {name: entries for name in content_hash.LISTS if (entries := fields[name])}


def _check_origin(run: Run, where: str) -> None:
    for model, name in ((PlatformFacts, "platform"), (EnvironmentFacts, "environment")):
        try:
            model.model_validate(getattr(run, name))
        except ValidationError as error:
            first = first_of(error)
            raise BadInput(f"{where}: {'.'.join(map(str, (name, *first['loc'])))}: {first['msg']}.") from error
    _check_time(run.campaign.created_at_utc, f"{where}: campaign.created_at_utc")
    definition_sha256 = sha256_of(run.experiment.definition)
    if run.experiment.definition_sha256 != definition_sha256:
        raise BadInput(
            f"{where}: experiment.definition_sha256 is {run.experiment.definition_sha256}, but the hash of the "
            f"definition is {definition_sha256}."
        )


def _check_evidence(run: Run, where: str) -> None:
    if run.evidence == "published":
        raise BadInput(
            f"{where}: evidence is 'published', which needs a reference, and a run file of schema version "
            f"{run.schema_version} cannot name one; allowed: measured, {', '.join(BACKENDS)}."
        )
    domain = "simulated" if run.evidence == "simulated" else "wall"
    if run.time_domain != domain:
        raise BadInput(
            f"{where}: time_domain is '{run.time_domain}' where evidence is '{run.evidence}'; allowed: {domain}."
        )
    if run.evidence not in ("simulated", run.spec.evidence):
        raise BadInput(
            f"{where}: evidence is '{run.evidence}', but its spec has the provider {run.spec.provider or 'none'}, "
            f"which makes it {run.spec.evidence}."
        )
    if (backend := run.backend) is None:
        return
    if run.evidence == "emulated" and backend.name != run.spec.profile:
        raise BadInput(
            f"{where}: backend.name is '{backend.name}', but the spec asks for profile '{run.spec.profile}'."
        )
    if backend.config_sha256 != (actual := sha256_of(backend.config)):
        raise BadInput(
            f"{where}: backend.config_sha256 is {backend.config_sha256}, but the hash of config is {actual}."
        )


def _check_time(text: str, where: str) -> None:
    try:
        is_utc = datetime.fromisoformat(text).utcoffset() == timedelta(0)
    except ValueError:
        is_utc = False
    if not is_utc:
        example = datetime(2026, 1, 31, 12, tzinfo=UTC).isoformat()
        raise BadInput(f"{where} is '{text}', but should be an ISO 8601 time in UTC, as {example}.")


def _check_unique(where: str, field: str, keys: Sequence[Hashable]) -> None:
    if len(set(keys)) != len(keys):
        twice = next(key for key, n in Counter(keys).items() if n > 1)
        raise BadInput(f"{where}: {field} has two entries for {twice}; one is allowed.")
