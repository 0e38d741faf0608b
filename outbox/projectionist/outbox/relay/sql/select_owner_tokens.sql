-- The token of this schema's owner, and the one for which relays last sent.
select o.token::text as here, (select token::text from {schema}.relay_owner) as before from {schema}.owner o
