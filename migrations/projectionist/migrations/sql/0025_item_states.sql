-- What an operation leaves alone is told by its sample now, so that no item is written for it.

update {schema}.operation_items set state = 'waiting' where state = 'left';
alter table {schema}.operation_items
    drop constraint operation_items_state_check,
    add constraint operation_items_state_check check (state in ('waiting', 'tried', 'done', 'failed', 'refused'));
