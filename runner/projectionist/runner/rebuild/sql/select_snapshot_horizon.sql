-- A snapshot that is taken from now on is as young as this, unless somebody writes since before.
select pg_snapshot_xmax(pg_current_snapshot())::text
