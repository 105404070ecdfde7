"""Kafka topics folded into partitioned, queryable state.

The pure core (`keys`, `state`, `app`, `tables`, `processing`, `testing`) imports neither Spark nor Flask. `redis_store`
and `kafka` reach the two servers; `spark` runs the folds; `web` answers from the state.
"""
