-- A build is over, and live leaves no marks any more: those there are go.
delete from {schema}.dirty_marks where consumer = $1
