"""The command line: thin commands over `decoevo_dspy.commands`, `reporting` and `simulation`.

Results go to stdout, everything else to stderr. Imports that cost time are made inside the commands.
"""

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from decoevo_dspy.cli.printing import print_alignment, print_evaluation, print_json, print_result, print_summary, safe
from decoevo_dspy.commands.quiet import quieten, quieten_litellm
from decoevo_dspy.errors import BudgetExceeded, ConfigurationError, DecoEvoError

if TYPE_CHECKING:
    from decoevo_dspy.commands.config import Config

app = typer.Typer(
    name="decoevo",
    help="Score-decoupled co-evolution of a DSPy program and its rubric generator. Start with: decoevo demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DEMO_METHODS = "zero-shot,skillopt,sc-coevo,decoevo"

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="A decoevo.toml file.")]
Jobs = Annotated[int, typer.Option(min=1, max=64, help="Processes that work at the same time.")]
Threads = Annotated[int | None, typer.Option(min=1, max=256, help="Concurrent model calls; default from the config.")]
FirstSeed = Annotated[int, typer.Option(min=0, help="The first seed; the others follow it.")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: those that README.md lists."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    debug = "--debug" in (sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(args=None if arguments is None else list(arguments), standalone_mode=False)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except DecoEvoError as error:
        if debug:
            raise
        return _fail(str(error), error.exit_code)
    except Exception as error:  # the boundary of the program: one line, and the traceback with --debug
        usage = getattr(error, "format_message", None)
        if usage is not None:
            return _fail(usage() or "see --help", getattr(error, "exit_code", 2)) if str(error) else 2
        if debug:
            raise
        line = " ".join(f"{type(error).__name__}: {error}".split())
        return _fail(f"unexpected {line} (--debug shows where)", 1)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    for line in message.splitlines():
        print(f"error: {safe(line)}", file=sys.stderr)
    return code


class Interrupted(DecoEvoError):
    """Ctrl-C while working. Typer would end the process on its own terms."""

    exit_code = 130


@contextlib.contextmanager
def _work(again: str = "") -> Iterator[None]:
    """Where work is done: whatever a library prints goes to stderr, so that stdout holds results only."""
    quieten()
    with contextlib.redirect_stdout(sys.stderr):
        try:
            yield
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; what was done is saved: run the same command again{again}") from None


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where runs, summary.json, report.html and figures go.")] = Path(
        "runs/demo"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 5,
    methods: Annotated[str, typer.Option(help="Methods to compare, separated by commas.")] = DEMO_METHODS,
    jobs: Jobs = 2,
    first_seed: FirstSeed = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare methods end to end on the embedded simulated backbone: offline, free, a few minutes."""
    with _work():
        from decoevo_dspy.commands.config import make_config

        config = make_config(
            {
                "data": {"benchmark": "simulated"},
                "models": {"default": {"model": "simulated"}},
                "optimizer": {"judge_mode": "rubric", "num_threads": 1},
            }
        )
        asked = _names(methods), range(first_seed, first_seed + seeds)
        summary = _experiment([config], *asked, out, jobs)
        written = _write_report(out)
    print_summary(summary, out, written, as_json, asked)


@app.command()
def optimize(
    config: ConfigFile,
    method: Annotated[str | None, typer.Option(help="The method; default from the config.")] = None,
    seed: Annotated[int | None, typer.Option(help="The run's seed; default from the config.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run's folder; default runs/<benchmark>-<method>-seed<k>.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    threads: Threads = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Optimise the skill of one task with one method, then score it on the test partition."""
    with _work(again=" with --resume"):
        from decoevo_dspy.cli.progress import Progress
        from decoevo_dspy.commands.experiment import MATCHED, is_complete, run_one
        from decoevo_dspy.run.folder import Run

        loaded = _load(config, method=method, seed=seed, num_threads=threads)
        table = loaded.optimizer
        folder = out or Path("runs") / f"{loaded.data.benchmark}-{table.method}-seed{table.seed}"
        with Progress(Run(folder).calls, steps=_steps(loaded)) as progress:
            result = run_one(loaded, folder, resume=resume, callbacks=[lambda event: progress(folder.name, event)])
    if as_json:
        print_json(result)
    else:
        print_result(result, folder)
    if result.get("stopped_by") == "budget" and table.method not in MATCHED and not is_complete(result):
        raise BudgetExceeded(f"{_cap(folder)}; the state is saved in {folder}: raise [budget] and add --resume")


@app.command()
def experiment(
    configs: Annotated[list[Path], typer.Argument(metavar="CONFIG...", help="One decoevo.toml per benchmark.")],
    methods: Annotated[str, typer.Option(help="Methods to compare, separated by commas.")] = DEMO_METHODS,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 5,
    out: Annotated[Path, typer.Option(help="The experiment's folder; an existing one is continued.")] = Path(
        "runs/experiment"
    ),
    jobs: Jobs = 2,
    first_seed: FirstSeed = 0,
    threads: Threads = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Methods × seeds × benchmarks with matched splits. Each seed splits the data anew.

    Runs share one call store; complete runs are skipped and interrupted ones resumed. The config's data.seed is for
    single runs: here a run's seed is its split's seed too.
    """
    with _work():
        loaded = [_load(path, num_threads=threads) for path in configs]
        asked = _names(methods), range(first_seed, first_seed + seeds)
        summary = _experiment(loaded, *asked, out, jobs)
    print_summary(summary, out, [], as_json, asked)


@app.command()
def evaluate(
    target: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN_OR_PROGRAM]", help="A run's folder, a saved DSPy program, or responses as JSON Lines."
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A decoevo.toml file.")] = None,
    benchmark: Annotated[str | None, typer.Option(help="Another benchmark than the config's.")] = None,
    zero_shot: Annotated[bool, typer.Option("--zero-shot", help="Score the initial program instead.")] = False,
    threads: Threads = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Score a run, a program or ready responses with the official grader, on the test partition."""
    with _work():
        from decoevo_dspy.commands.evaluate import score_target

        if config is None:
            raise ConfigurationError("--config: give a decoevo.toml file")
        if (target is None) != zero_shot:
            raise ConfigurationError("give either a run, program or responses file, or --zero-shot")
        found = score_target(target, _load(config, num_threads=threads), benchmark=benchmark)
    if as_json:
        print_json(found)
    else:
        print_evaluation(found)


@app.command()
def align(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="A run's folder.")] = None,
    config: Annotated[Path | None, typer.Option(help="A decoevo.toml file.")] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(metavar="LABELS", help="Check the matcher by human labels (JSON Lines: generated, gold, same)."),
    ] = None,
    benchmark: Annotated[str | None, typer.Option(help="Another benchmark than the config's.")] = None,
    partition: Annotated[str, typer.Option(help="Which partition's questions: test or diagnostic.")] = "test",
    threads: Threads = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure how far a run's rubrics agree with the gold criteria: precision, recall and F1 by a matcher model.

    The run's last generator skill stands beside its initial one. The matcher is [models.matcher], else the default.
    With --calibrate and no run, only the matcher is checked.
    """
    with _work():
        from decoevo_dspy.commands.align import align_run

        if config is None:
            raise ConfigurationError("--config: give a decoevo.toml file")
        loaded = _load(config, num_threads=threads)
        found = align_run(run, loaded, benchmark=benchmark, partition=partition, labels=calibrate)
    if as_json:
        print_json(found)
    else:
        print_alignment(found)


@app.command()
def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    diff: Annotated[bool, typer.Option("--diff", help="Show the text change of every candidate.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show every candidate of a run with its verdict and reason."""
    from decoevo_dspy.reporting.show import show_json, show_text

    if as_json:
        print_json(show_json(run))
    else:
        print(safe(show_text(run, diff)))


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Experiment or run folders.")],
    out: Annotated[Path | None, typer.Option(help="Where to write; default beside the first folder's files.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write report.html, tables.csv and figures/*.png."""
    with _work():
        from decoevo_dspy.reporting.report import write_report
        from decoevo_dspy.run.folder import report_file

        missing = [folder for folder in folders if not folder.exists()]
        if missing:
            raise ConfigurationError(f"{missing[0]}: no such folder")
        page = write_report(list(folders), report_file(out or folders[0]))
    if as_json:
        print_json({"report": str(page)})
    else:
        print(safe(str(page)))


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write.")] = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a commented decoevo.toml and a small sample data file."""
    from decoevo_dspy.commands.init import write_starter

    files = write_starter(folder)
    if as_json:
        print_json({"files": [str(file) for file in files]})
    else:
        print("\n".join(safe(str(file)) for file in files))


@app.command()
def simulate(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 takes a free one.")],
    latency_ms: Annotated[float, typer.Option(min=0, help="Added to every answer.")] = 0.0,
    fail_rate: Annotated[float, typer.Option(min=0, max=1, help="Share of requests answered with 500.")] = 0.0,
    rate_limit: Annotated[float | None, typer.Option(help="Requests per second before 429 is answered.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="Known model names (repeatable); default all.")] = None,
    seed: Annotated[int, typer.Option(help="The world's seed.")] = 0,
    world_name: Annotated[str, typer.Option(help="The world: v1, v2 or weak-structural.")] = "v1",
    world: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="One parameter of the world (repeatable).")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Serve the simulated backbone behind an OpenAI-compatible endpoint until it is interrupted."""
    import threading

    from decoevo_dspy.simulation.server import serve
    from decoevo_dspy.simulation.worlds import named_world

    try:
        server = serve(
            port,
            seed=seed,
            parameters=named_world(world_name, dict(map(_assignment, world or ()))),
            latency_ms=latency_ms,
            fail_rate=fail_rate,
            rate_limit=rate_limit,
            models=tuple(model or ()),
        )
    except OSError as error:
        raise ConfigurationError(f"--port {port}: cannot listen there ({error.strerror})") from None
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    address = server.url
    with server:
        if as_json:
            print_json({"api_base": address})
        else:
            print(f"simulated backbone at {address} (Ctrl-C stops it)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


def _load(path: Path, **optimizer: Any) -> "Config":
    """The config with the command line's own values in place."""
    from decoevo_dspy.commands.config import load_config, make_config

    config = load_config(path)
    given = {key: value for key, value in optimizer.items() if value is not None}
    if config.needs_litellm:
        quieten_litellm()
    if not given:
        return config
    values = config.model_dump(exclude_unset=True)
    values["optimizer"] = {**values.get("optimizer", {}), **given}
    return make_config(values, file=config.file)


def _assignment(text: str) -> tuple[str, float]:
    """A parameter and its value from ``NAME=VALUE``."""
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise ConfigurationError(f"--world {text}: give it as NAME=VALUE, the value a number") from None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _steps(config: "Config") -> int:
    from decoevo_dspy.teleprompters import METHODS
    from decoevo_dspy.values.settings import Settings

    optimises = METHODS[config.optimizer.method].method.optimises
    return int(config.optimizer.settings.get("steps", Settings.steps)) if optimises else 1


def _experiment(
    configs: "Sequence[Config]", methods: Sequence[str], seeds: Sequence[int], out: Path, jobs: int
) -> dict[str, Any]:
    from decoevo_dspy.cli.progress import Progress
    from decoevo_dspy.commands.experiment import run_experiment
    from decoevo_dspy.run.folder import ExperimentFolder

    runs = len(configs) * len(methods) * len(seeds)
    with Progress(ExperimentFolder(out).calls, steps=max(map(_steps, configs), default=1), runs=runs) as progress:
        return run_experiment(configs, methods, list(seeds), out, jobs=jobs, report=progress)


def _write_report(out: Path) -> list[Path]:
    from decoevo_dspy.reporting.figures import write_figures
    from decoevo_dspy.reporting.report import write_report
    from decoevo_dspy.run.folder import report_file

    return [write_report([out], report_file(out)), *write_figures(out)]


def _cap(folder: Path) -> str:
    """Which cap stopped the run, as its log says."""
    from decoevo_dspy.run.folder import Run
    from decoevo_dspy.run.standing import fold

    stopped = fold(Run(folder).events()).stopped
    return stopped.reason if stopped else "a budget is used up"


__all__: list[str] = ["app", "main"]
