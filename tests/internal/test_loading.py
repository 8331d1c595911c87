"""Loading the module of `@internal` jobs: what it may say, and the one sentence for everything else."""

import json

import pytest

from hub.api.app import create_app
from hub.errors import StartRefused
from hub.internal.registry import load_internal_jobs
from hub.settings import Settings
from tests.internal import sample

JOB = "SimpleNamespace(schema={'type': 'object'}, execute=print)"


@pytest.fixture
def load(tmp_path, monkeypatch, request):
    """Load a module of this text: `load(text)`, or `load(text, 'module:name')`."""
    module = f"jobs_of_{request.node.name.partition('[')[0]}_{abs(hash(request.node.name))}"
    monkeypatch.syspath_prepend(tmp_path)

    def load(text, named="{}", **settings):
        (tmp_path / f"{module}.py").write_text(f"from types import SimpleNamespace\n{text}\n")
        return load_internal_jobs(Settings(internal_jobs=named.format(module), **settings))

    return load


def test_without_a_module_in_the_settings_no_job_is_loaded():
    assert load_internal_jobs(Settings()) == {}


def test_the_jobs_of_a_module_are_loaded_under_their_full_names():
    jobs = load_internal_jobs(Settings(internal_jobs="tests.internal.sample"))
    assert jobs.keys() == sample.internal_jobs.keys()
    write = jobs[sample.WRITE]
    assert (write.full, json.loads(write.text), write.execute) == (sample.WRITE, sample.SCHEMA, sample.write)


def test_the_name_of_the_dictionary_in_the_module_can_be_given(load):
    assert load(f"mine = {{'@internal:analysis:A': {JOB}}}", "{}:mine").keys() == {"@internal:analysis:A"}


def test_a_job_name_may_hold_colons_and_text_of_any_language(load):
    jobs = load(f"internal_jobs = {{'@internal:analysis:a:é': {JOB}}}")
    assert jobs.keys() == {"@internal:analysis:a:é"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("raise OSError('no disk')", "cannot be imported: OSError: no disk."),
        ("import sys; sys.exit(3)", "cannot be imported: SystemExit: 3."),
        ("internal_jobs = ", "cannot be imported: SyntaxError"),
        ("jobs = {}", "has no `internal_jobs`."),
        ("internal_jobs = ['@internal:analysis:A']", "`internal_jobs` is no mapping from full names to jobs."),
        (f"internal_jobs = {{'A': {JOB}}}", "'A' is no full name such as @internal:modifiers:Name."),
        (f"internal_jobs = {{'@global:analysis:A': {JOB}}}", "'@global:analysis:A' is no full name such as"),
        (f"internal_jobs = {{'@internal:analysis': {JOB}}}", "'@internal:analysis' is no full name such as"),
        (f"internal_jobs = {{'@internal:analysis:': {JOB}}}", "'@internal:analysis:' is no full name such as"),
        (f"internal_jobs = {{7: {JOB}}}", "7 is no full name such as"),
        (
            f"internal_jobs = {{'@internal:cooking:A': {JOB}}}",
            "the category of @internal:cooking:A is none of modifiers,",
        ),
        (
            "internal_jobs = {'@internal:analysis:A': SimpleNamespace(schema=[], execute=print)}",
            "the schema of @internal:analysis:A is no JSON object.",
        ),
        (
            "internal_jobs = {'@internal:analysis:A': print}",
            "@internal:analysis:A has no `execute` that could be called.",
        ),
        ("raise ValueError('two\\nlines.')", "cannot be imported: ValueError: two lines."),
        (
            "internal_jobs = {'@internal:analysis:A': SimpleNamespace(schema={}, execute='print')}",
            "@internal:analysis:A has no `execute` that could be called.",
        ),
        (
            "internal_jobs = {'@internal:analysis:A': SimpleNamespace(schema={'a': {1, 2}}, execute=print)}",
            "the schema of @internal:analysis:A cannot be written as JSON: ",
        ),
        (
            "internal_jobs = {'@internal:analysis:A': SimpleNamespace(schema={'a': float('nan')}, execute=print)}",
            "the schema of @internal:analysis:A cannot be written as JSON: ",
        ),
    ],
)
def test_an_unusable_module_is_refused_in_one_sentence(load, text, sentence):
    with pytest.raises(StartRefused) as refused:
        load(text)
    assert sentence in refused.value.detail
    assert refused.value.detail.startswith("HUB_INTERNAL_JOBS=jobs_of_")
    assert refused.value.detail.endswith(".")
    assert "\n" not in refused.value.detail


@pytest.mark.parametrize(
    "named", ["no_such_module", "no.such.module", ":name", ".relative", "tests.internal.sample:no"]
)
def test_a_missing_module_is_refused_in_one_sentence(named):
    with pytest.raises(StartRefused, match=f"HUB_INTERNAL_JOBS={named}: "):
        load_internal_jobs(Settings(internal_jobs=named))


def test_an_allowed_category_is_accepted(load):
    allowed = load(f"internal_jobs = {{'@internal:cooking:A': {JOB}}}", allowed_categories=("cooking",))
    assert allowed.keys() == {"@internal:cooking:A"}


def test_a_hub_does_not_start_with_an_unusable_module():
    with pytest.raises(StartRefused, match="no_such_module cannot be imported"):
        create_app(Settings(internal_jobs="no_such_module"))


def test_a_command_straight_on_redis_does_not_need_the_module():
    assert create_app(Settings(internal_jobs="no_such_module"), sweep=False)
