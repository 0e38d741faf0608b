-- Events whose content somebody had removed: their identity, hash and version stay.

alter table {schema}.inbox
    drop constraint inbox_state_check,
    add constraint inbox_state_check check (
        state in ('applied', 'ignored', 'stale', 'parked', 'quarantined', 'skipped', 'discarded', 'erased')
    );
comment on column {schema}.inbox.state is 'erased: its content was removed, or could not be decrypted any more, and nothing of it is applied';
alter table {schema}.decisions
    drop constraint decisions_kind_check,
    add constraint decisions_kind_check check (
        kind in ('skip', 'discard', 'edit', 'accept_gap', 'winner', 'baseline', 'erase')
    );
comment on column {schema}.quarantine.data is 'null: a reference, the stream holds it at (incarnation, seq); or erased, or no longer kept';

-- What the archive holds of an aggregate's intents is looked for by who erases it.
create index archive_intent_aggregate on {schema}.archive (((content ->> 'aggregate'))) where kind = 'intents';
