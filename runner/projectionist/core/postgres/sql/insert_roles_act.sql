-- Records who has given or taken rights, and by which statements.
insert into {schema}.audit (who, action, object, reason, detail)
values ($1, 'roles', 'roles', $2, jsonb_build_object('statements', $3::text[]))
