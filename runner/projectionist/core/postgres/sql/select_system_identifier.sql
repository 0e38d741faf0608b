-- The identifier of the cluster, which a physical copy shares and a dump does not bring along.
select system_identifier::text from pg_control_system()
