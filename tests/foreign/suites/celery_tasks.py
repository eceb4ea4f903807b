"""The tasks of the celery suite, and its application; the worker imports this, as the suite does.

The broker, the name of the task queue and whether it has priorities come by the environment.
"""

import os
import time

import celery

app = celery.Celery("foreign", broker=os.environ["FOREIGN_BROKER"], backend="rpc://")
app.conf.update(
    task_default_queue=os.environ["FOREIGN_QUEUE"],
    task_queue_max_priority=int(os.environ["FOREIGN_PRIORITIES"] or 0) or None,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_default_queue_type=os.environ["FOREIGN_QUEUE_TYPE"],
    worker_prefetch_multiplier=1,
    # mingle and gossip speak through queues that expire (x-expires), as remote control does
    worker_enable_remote_control=os.environ["FOREIGN_REMOTE"] == "1",
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
    task_publish_retry=True,
    result_expires=None,
    control_queue_ttl=60,
)


@app.task
def add(one, two):
    return one + two


@app.task
def fail(text):
    raise ValueError(text)


@app.task(bind=True, max_retries=5)
def third_time(self):
    """Succeeds at its third attempt; answers how many retries it took."""
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return self.request.retries


@app.task
def now():
    return time.time()


@app.task
def slow(seconds):
    time.sleep(seconds)
    return "done"


@app.task(bind=True)
def where(self):
    """The id of the task, and whether it was delivered before."""
    return self.request.id, bool(self.request.delivery_info["redelivered"])
