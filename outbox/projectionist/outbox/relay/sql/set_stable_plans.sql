-- Plans that depend on no statistics: a queue is empty one minute and a million rows long the next. A start and a reply are
-- on disk when they are committed, also in a database that prefers speed: a lost attempt would be made again.
select set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
    set_config('plan_cache_mode', 'force_generic_plan', false),
    case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', false) end
