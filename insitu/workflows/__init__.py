"""Everything that a command does, as Python functions.

A function returns values, raises the errors of `insitu.errors`, and prints nothing. A long one
reports its progress to a callback.

    advise      advise_runs
    campaign    plan_campaign, make_runs, submit_jobs, load_agenda
    check       check_expectations
    classes     list_classes, draw_classes
    design      load_dependencies, make_design, compare_check_points, judge_main_loop,
                add_interactions, write_dependencies
    detect      detect_dependencies
    diagnose    diagnose
    diff        diff_campaigns
    doctor      check_machine
    efficiency  load_efficiencies
    export      export_campaign
    import      import_measurements, import_files
    ingest      ingest_tables
    init        init_campaign
    models      list_models
    omit        omit_runs
    plot        draw_models
    predict     predict_series
    refit       refit_campaign
    relay       serve_relay
    report      write_report, summarise_campaign
    runs        list_runs
    serve       serve_campaign
    watch       load_state, follow_campaign, follow_boards, serve_page
"""

from importlib import import_module

TYPE_CHECKING = False  # typing is not loaded before it is needed
if TYPE_CHECKING:
    from insitu.workflows.advise import advise_runs
    from insitu.workflows.campaign import plan_campaign
    from insitu.workflows.check import check_expectations
    from insitu.workflows.classes import draw_classes, list_classes
    from insitu.workflows.design import (
        add_interactions,
        compare_check_points,
        judge_main_loop,
        load_dependencies,
        make_design,
        write_dependencies,
    )
    from insitu.workflows.detect import detect_dependencies
    from insitu.workflows.diagnosis import diagnose
    from insitu.workflows.diff import diff_campaigns
    from insitu.workflows.doctor import check_machine
    from insitu.workflows.efficiency import load_efficiencies
    from insitu.workflows.export import export_campaign
    from insitu.workflows.import_ import import_files, import_measurements
    from insitu.workflows.ingest import ingest_tables
    from insitu.workflows.init import init_campaign
    from insitu.workflows.jobs import submit_jobs
    from insitu.workflows.models import list_models
    from insitu.workflows.omit import omit_runs
    from insitu.workflows.page import serve_page
    from insitu.workflows.plot import draw_models
    from insitu.workflows.predict import predict_series
    from insitu.workflows.progress import load_agenda
    from insitu.workflows.refit import refit_campaign
    from insitu.workflows.relay import serve_relay
    from insitu.workflows.report import summarise_campaign, write_report
    from insitu.workflows.runner import make_runs
    from insitu.workflows.runs import list_runs
    from insitu.workflows.serve import serve_campaign
    from insitu.workflows.watch import follow_boards, follow_campaign, load_state

_MODULES = {
    "add_interactions": "design",
    "advise_runs": "advise",
    "check_expectations": "check",
    "check_machine": "doctor",
    "compare_check_points": "design",
    "detect_dependencies": "detect",
    "diagnose": "diagnosis",  # not the name of the function, which the module would hide
    "diff_campaigns": "diff",
    "draw_classes": "classes",
    "draw_models": "plot",
    "export_campaign": "export",
    "follow_boards": "watch",
    "follow_campaign": "watch",
    "import_files": "import_",
    "import_measurements": "import_",
    "ingest_tables": "ingest",
    "init_campaign": "init",
    "judge_main_loop": "design",
    "list_classes": "classes",
    "list_models": "models",
    "list_runs": "runs",
    "load_agenda": "progress",
    "load_dependencies": "design",
    "load_efficiencies": "efficiency",
    "load_state": "watch",
    "make_design": "design",
    "make_runs": "runner",
    "omit_runs": "omit",
    "plan_campaign": "campaign",
    "predict_series": "predict",
    "refit_campaign": "refit",
    "serve_campaign": "serve",
    "serve_page": "page",
    "serve_relay": "relay",
    "submit_jobs": "jobs",
    "summarise_campaign": "report",
    "write_dependencies": "design",
    "write_report": "report",
}
__all__ = [
    "add_interactions",
    "advise_runs",
    "check_expectations",
    "check_machine",
    "compare_check_points",
    "detect_dependencies",
    "diagnose",
    "diff_campaigns",
    "draw_classes",
    "draw_models",
    "export_campaign",
    "follow_boards",
    "follow_campaign",
    "import_files",
    "import_measurements",
    "ingest_tables",
    "init_campaign",
    "judge_main_loop",
    "list_classes",
    "list_models",
    "list_runs",
    "load_agenda",
    "load_dependencies",
    "load_efficiencies",
    "load_state",
    "make_design",
    "make_runs",
    "omit_runs",
    "plan_campaign",
    "predict_series",
    "refit_campaign",
    "serve_campaign",
    "serve_page",
    "serve_relay",
    "submit_jobs",
    "summarise_campaign",
    "write_dependencies",
    "write_report",
]


def __getattr__(name: str) -> object:
    """Load a public function on first use: a command imports only what it needs."""
    if name not in _MODULES:
        raise AttributeError(f"module 'insitu.workflows' has no attribute '{name}'")
    value: object = getattr(import_module(f"insitu.workflows.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
