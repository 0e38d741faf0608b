-- Lets this transaction remove acts, which the audit trail refuses otherwise; $1 is the setting that it looks at.
select set_config($1::text, 'audit', true)
