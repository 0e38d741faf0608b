-- No build is open any more: its marks go.
delete from {schema}.dirty where consumer = $1
