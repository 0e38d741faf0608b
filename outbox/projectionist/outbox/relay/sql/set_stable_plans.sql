-- Plans that depend on no statistics: a queue is empty one minute and a million rows long the next. A start and a reply are
-- on disk when they are committed, also in a database that prefers speed: a lost attempt would be made again. $1: until
-- the end of the transaction, not of the session.
select set_config('enable_seqscan', 'off', $1), set_config('enable_bitmapscan', 'off', $1),
    set_config('plan_cache_mode', 'force_generic_plan', $1),
    case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', $1) end
