-- Plans that depend on no statistics: a queue is empty one minute and a million rows long the next.
select set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
    set_config('plan_cache_mode', 'force_generic_plan', false)
