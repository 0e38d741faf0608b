-- What the server says that it is.
select version()
