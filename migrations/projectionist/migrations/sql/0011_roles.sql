-- Which roles of the database rights were given to, so that tables that are made later can have the same.

create table {schema}.roles (
    duty text collate "C" not null
        check (duty in ('owner', 'runner', 'relay', 'operator', 'observer', 'recorder', 'reader')),
    role text collate "C" not null,
    primary key (duty, role)
);
comment on table {schema}.roles is 'Written by `projectionist roles apply`; who makes a table gives it the rights of these.';
