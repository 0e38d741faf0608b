"""Names of metrics and spans, the meters behind them, liveness and the health server.

It may import settings and core's small modules; without an exporter it costs nothing. Read `names` first, then
`instruments` and `metrics`.
"""
