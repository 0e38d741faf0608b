-- A build is over, and live leaves no marks any more: those there are go.
delete from {schema}.dirty where consumer = $1
