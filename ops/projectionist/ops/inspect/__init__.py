"""Looks at a whole: where a project stands, the audit of a stream, an app as an AsyncAPI document, its views as models.

It may import doctor, runner, projections, outbox, migrations, cli and core.
Read `project_status` first, then `stream_audit`, `async_api` and `row_models`.
"""
