-- One more try of an event is about to begin; how many there have been, this one counted.
insert into {schema}.crash_marks (consumer, source, id, runner) values ($1, $2, $3, $4)
on conflict (consumer, source, id) do update
set marks = crash_marks.marks + 1, runner = excluded.runner, at = clock_timestamp()
returning marks
