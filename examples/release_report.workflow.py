"""Write a report about a project's git history: who works on it, when, and what it is made of.

Reads the history page by page until enough commits are covered, counts the files of the newest
commit, and writes one Markdown file. Everything is read at the commit found first, so commits
that arrive meanwhile, or a crash in the middle, change nothing.

    pi-workflows run examples/release_report.workflow.py --input '{"target_commits": 50}'
"""

import os
import re
from collections import Counter
from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from hashlib import sha256
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, Field

from pi_workflows import Command, Ctx, Route, ShellResult, Workflow, idempotent

COMMITS_MAX = 10_000
TIMEOUT_SECONDS = 300
FIELD = "\x1f"
RECORD = "\x1e"


class ReportIn(BaseModel):
    """What to report on; relative paths are below the run's project folder."""

    model_config = ConfigDict(extra="forbid")

    project: Path = Path(__file__).absolute().parent.parent
    target_commits: int = Field(default=200, ge=1, le=COMMITS_MAX)
    page_commits: int = Field(default=25, ge=1, le=1_000)
    output: Path | None = Field(
        default=None, description="Default: .pi/reports/release-report.md in the project."
    )


class Head(BaseModel):
    """The newest commit, at which everything else is read."""

    commit: str
    day: date
    subject: str


class Page(BaseModel):
    """Sums over one page of commits; authors are told apart by a digest of their address."""

    commits: int = 0
    days: dict[date, int] = {}
    authors: dict[str, int] = {}
    lines_added: int = 0
    lines_removed: int = 0
    cut_off: bool = Field(default=False, description="A shallow clone's history ends here.")


class Next(StrEnum):
    """Whether another page is needed."""

    MORE = "more"
    ENOUGH = "enough"


class History(Route[Next]):
    """Sums over all pages so far."""

    pages: int
    so_far: Page


class Tree(BaseModel):
    """The files of the newest commit."""

    files: int
    files_by_kind: dict[str, int]


class Lines(BaseModel):
    """The text lines of the newest commit; binary files have none."""

    lines: int
    lines_by_kind: dict[str, int]


class Report(BaseModel):
    """Where the report is, and its figures."""

    path: Path
    commits: int
    authors: int
    pages: int
    files: int
    lines: int


def title(given: ReportIn) -> str:
    """Name the run after the project's folder."""
    return f"release report of {given.project.name or 'the project'}"


wf = Workflow("release_report", input=ReportIn, title=title, max_steps=2 * COMMITS_MAX + 10)


def git(ctx: Ctx[ReportIn], *arguments: str) -> Command:
    """Return a git command in the project whose output is the same for every user."""
    fixed = ["-C", str(ctx.input.project), "-c", "log.showSignature=false", "--no-pager"]
    return Command(command="git", args=[*fixed, *arguments], env={"LC_ALL": "C"})


def whole_output(result: ShellResult) -> str:
    """Return what was printed; figures from a part of it would be wrong."""
    if result.stdout_truncated:
        raise ValueError("git printed more than this workflow takes in")
    return result.stdout


def parse_head(result: ShellResult) -> Head:
    """Read the three fields of the newest commit."""
    commit, day, subject = whole_output(result).rstrip("\n").split(FIELD, 2)
    return Head(commit=commit, day=date.fromisoformat(day), subject=subject)


@wf.shell(effect=idempotent("git.read"), parse=parse_head, timeout=TIMEOUT_SECONDS)
def find_head(ctx: Ctx[ReportIn]) -> Command:
    """Pin the commit that the report is about."""
    return git(ctx, "log", "--max-count=1", "--date=short", "--format=%H%x1f%cd%x1f%s")


def parse_page(result: ShellResult) -> Page:
    """Add up one page of `git log --shortstat`."""
    page = Page()
    for record in whole_output(result).split(RECORD)[1:]:
        day, address, refs, changes = record.split(FIELD, 3)
        author = sha256(address.encode()).hexdigest()[:12]
        page.commits += 1
        page.days[date.fromisoformat(day)] = page.days.get(date.fromisoformat(day), 0) + 1
        page.authors[author] = page.authors.get(author, 0) + 1
        if "grafted" in refs.split(", "):  # Its changes would be the whole tree.
            page.cut_off = True
            continue
        page.lines_added += changed_lines(changes, "insertion")
        page.lines_removed += changed_lines(changes, "deletion")
    return page


def changed_lines(changes: str, word: str) -> int:
    """Return the number before a word in ` 2 files changed, 7 insertions(+)`; 0 without it."""
    counts = (part.split() for part in changes.split(",") if word in part)
    return sum(int(count) for count, *_ in counts)


@wf.shell(effect=idempotent("git.read"), parse=parse_page, timeout=TIMEOUT_SECONDS)
def read_page(ctx: Ctx[ReportIn]) -> Command:
    """Read the next page of commits; the visit says which."""
    size = ctx.input.page_commits
    skip = size * (ctx.visit - 1)
    return git(
        ctx,
        "log",
        "--date=short",
        "--no-color",
        "--shortstat",
        "--format=%x1e%cd%x1f%aE%x1f%D%x1f",
        f"--skip={skip}",
        f"--max-count={min(size, ctx.input.target_commits - skip)}",
        ctx.output(find_head).commit,
    )


@wf.compute()
def add_up(ctx: Ctx[ReportIn]) -> History:
    """Add the page to the sums and decide whether to read another."""
    page, before = ctx.output(read_page), ctx.get(add_up)
    so_far = page if before is None else merged(before.so_far, page)
    ended = page.commits < ctx.input.page_commits
    enough = ended or so_far.commits >= ctx.input.target_commits
    return History(route=Next.ENOUGH if enough else Next.MORE, pages=ctx.visit, so_far=so_far)


def merged(one: Page, other: Page) -> Page:
    """Return the sums over both."""
    return Page(
        commits=one.commits + other.commits,
        days=Counter(one.days) + Counter(other.days),
        authors=Counter(one.authors) + Counter(other.authors),
        lines_added=one.lines_added + other.lines_added,
        lines_removed=one.lines_removed + other.lines_removed,
        cut_off=one.cut_off or other.cut_off,
    )


def kind_of(path: str) -> str:
    """Return a file's kind: its suffix, or its name where it has none."""
    file = PurePosixPath(path)
    return file.suffix.lower() or file.name


def parse_tree(result: ShellResult) -> Tree:
    """Count the listed paths by kind."""
    paths = whole_output(result).split("\0")[:-1]
    return Tree(files=len(paths), files_by_kind=Counter(map(kind_of, paths)))


@wf.shell(
    effect=idempotent("git.read"),
    parse=parse_tree,
    timeout=TIMEOUT_SECONDS,
    max_output_chars=20_000_000,
)
def list_files(ctx: Ctx[ReportIn]) -> Command:
    """List every file of the commit, wherever in the repository the project folder is."""
    commit = ctx.output(find_head).commit
    return git(ctx, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)


def parse_lines(result: ShellResult) -> Lines:
    """Add up `commit:path NUL lines` records by kind."""
    if result.exit_code not in {0, 1}:  # 1: no file has a line.
        raise ValueError(f"git grep failed: {result.stderr.strip()}")
    by_kind: Counter[str] = Counter()
    for place, count in re.findall(r"([^\0]*)\0(\d+)\n", whole_output(result)):
        by_kind[kind_of(place.partition(":")[2])] += int(count)
    return Lines(lines=by_kind.total(), lines_by_kind=by_kind)


@wf.shell(
    effect=idempotent("git.read"),
    parse=parse_lines,
    timeout=TIMEOUT_SECONDS,
    allow_nonzero_exit=True,
    max_output_chars=20_000_000,
)
def count_lines(ctx: Ctx[ReportIn]) -> Command:
    """Count the lines of every text file of the commit."""
    commit = ctx.output(find_head).commit
    counting = ["grep", "-I", "-z", "--no-color", "--full-name", "--count", "-e", ""]
    return git(ctx, *counting, commit, "--", ":/")


@wf.compute()
def compose(ctx: Ctx[ReportIn]) -> str:
    """Write the report's text."""
    head, history, tree = ctx.output(find_head), ctx.output(add_up), ctx.output(list_files)
    lines = ctx.output(count_lines)
    sums = history.so_far
    days = Counter(sums.days)
    weekdays = Counter[str]()
    for day, commits in days.items():
        weekdays[f"{day:%A}"] += commits
    kinds = [
        (kind, files, lines.lines_by_kind.get(kind, 0))
        for kind, files in Counter(tree.files_by_kind).most_common(12)
    ]
    end = " (a shallow clone: there are older ones elsewhere)" if sums.cut_off else ""
    return "\n".join(
        [
            f"# {ctx.input.project.absolute().name}: release report",
            "",
            f"At commit `{head.commit[:12]}` of {head.day}: {head.subject}",
            "",
            f"- commits: {sums.commits}, from {min(days)} to {max(days)}{end}",
            f"- authors: {len(sums.authors)}; the busiest made {max(sums.authors.values())}",
            f"- lines added: {sums.lines_added}, removed: {sums.lines_removed}",
            f"- files now: {tree.files}, with {lines.lines} lines of text",
            "",
            *table(("busiest day", "commits"), days.most_common(5)),
            *table(("weekday", "commits"), weekdays.most_common()),
            *table(("kind of file", "files", "lines"), kinds),
        ]
    )


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> list[str]:
    """Return a Markdown table and an empty line."""
    cells = [head, ("---",) * len(head), *rows]
    texts = ([str(cell).replace("|", "\\|") for cell in row] for row in cells)
    return [*(f"| {' | '.join(row)} |" for row in texts), ""]


@wf.action(effect=idempotent("report.write"), timeout=TIMEOUT_SECONDS)
def write_report(ctx: Ctx[ReportIn]) -> Report:
    """Put the text in place at once; doing it again puts the same text there."""
    default = ctx.input.project / ".pi" / "reports" / "release-report.md"
    path = (ctx.input.output or default).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{ctx.run_id}")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(ctx.output(compose))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    history, tree = ctx.output(add_up), ctx.output(list_files)
    return Report(
        path=path,
        commits=history.so_far.commits,
        authors=len(history.so_far.authors),
        pages=history.pages,
        files=tree.files,
        lines=ctx.output(count_lines).lines,
    )


wf.edge(find_head, read_page)
wf.edge(read_page, add_up)
wf.route(add_up, {Next.MORE: read_page, Next.ENOUGH: list_files})
wf.edge(list_files, count_lines)
wf.edge(count_lines, compose)
wf.edge(compose, write_report)
workflow = wf.build(start=find_head)
