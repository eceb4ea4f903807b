"""The HTTP API beyond RabbitMQ's: looking at messages, moving them, sending them back, saying where one would go."""

import base64
import json
import socket
import threading
import time

import pika
from lab.broker import Broker
from lab.cases import equal, eventually


def fill(vhost, count):
    """A queue whose messages die of being rejected, and one where they are buried; so many died."""
    connection = vhost.client()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True, arguments={
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    channel.queue_declare("dead", durable=True)
    for number in range(count):
        properties = pika.BasicProperties(delivery_mode=2, message_id=str(number), headers={"kept": number})
        channel.basic_publish("", "orders", str(number).encode(), properties)
    for _ in range(count):
        method, _, _ = channel.basic_get("orders")
        channel.basic_reject(method.delivery_tag, requeue=False)
    return connection, channel


def depth(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def peek(vhost):
    connection, channel = fill(vhost, 30)
    try:
        eventually(lambda: depth(channel, "dead") == 30, "the dead")
        path, seen, offset = f"/x/queues/{vhost.name}/dead/messages?count=7&offset=", [], 0
        while offset is not None:
            page = vhost.api.get(path + str(offset))
            seen += [message["payload"] for message in page["messages"]]
            offset = page["next_offset"]
        equal(seen, [str(number) for number in range(30)])
        equal(page["messages"][0]["properties"]["headers"]["x-first-death-queue"], "orders")
        channel.queue_declare("fresh", durable=True)
        channel.basic_publish("", "fresh", b"x")
        for _ in range(2):
            shown = vhost.api.get(f"/x/queues/{vhost.name}/fresh/messages")["messages"]
            equal([message["redelivered"] for message in shown], [False])
        equal((depth(channel, "dead"), channel.basic_get("fresh")[0].redelivered), (30, False))
        equal(vhost.api.status("GET", f"/x/queues/{vhost.name}/none/messages"), 404)
    finally:
        connection.close()


def peek_anywhere(vhost):
    """Places in a queue that are farther from its head than a page may be."""
    count = 66_000
    connection = vhost.client()
    channel = connection.channel()
    try:
        for queue, kind, most in (("long", "classic", count), ("agreed", "quorum", 300)):
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
            for number in range(most - 1):
                channel.basic_publish("", queue, str(number).encode())
            channel.confirm_delivery()
            channel.basic_publish("", queue, str(most - 1).encode(), pika.BasicProperties(delivery_mode=2))
            channel = connection.channel()
            eventually(lambda: depth(channel, queue) == most, "all messages")
            path = f"/x/queues/{vhost.name}/{queue}/messages?"

            def page(query):
                begin = time.monotonic()
                told = vhost.api.get(path + query)
                assert time.monotonic() - begin < 30, query
                return [int(message["payload"]) for message in told["messages"]], told

            # A position is the number of a message here, since none came before.
            for begin in (0, most // 2, most - 3, most - 1):
                seen, told = page(f"position={begin}&count=5")
                equal(seen, list(range(begin, min(begin + 5, most))), begin)
                equal([message["position"] for message in told["messages"]], seen, begin)
                equal(told["next_position"], begin + 5 if begin + 5 < most else None, begin)
            equal(page(f"position={most}")[0], [])
            equal(page("last=3")[0], [most - 3, most - 2, most - 1])
            # What is held by somebody is passed over.
            holder = connection.channel()
            held = [holder.basic_get(queue)[0].delivery_tag for _ in range(4)]
            equal(page("position=2&count=3")[0], [4, 5, 6])
            holder.basic_nack(held[-1], multiple=True, requeue=True)
            eventually(lambda: page("position=2&count=3")[0] == [2, 3, 4], "they are back")
        seen, told = page("offset=0&count=300")
        equal((seen, told["next_offset"], told["next_position"]), (list(range(300)), None, None))
        path = f"/x/queues/{vhost.name}/long/messages?"
        seen, told = page("offset=65000&count=500")
        equal((seen[-1], told["next_offset"], told["next_position"]), (65_499, None, 65_500))
        position = told["next_position"]
        while position is not None:
            more, told = page(f"position={position}&count=500")
            seen, position = seen + more, told["next_position"]
        equal(seen, list(range(65_000, count)))
        for query in ("offset=65001", "position=x", "position=-1", "last=501", "last=3&count=3", "position=1&offset=1", "from=first"):
            equal(vhost.api.status("GET", path + query), 400, query)
        equal(depth(channel, "long"), count)
        equal(channel.basic_get("long")[0].redelivered, True)
    finally:
        connection.close()


def peek_stream(vhost):
    connection = vhost.client()
    channel = connection.channel()
    path = f"/x/queues/{vhost.name}/events/messages?"
    try:
        channel.queue_declare("events", durable=True, arguments={"x-queue-type": "stream"})
        equal(vhost.api.get(path), {"messages": [], "first_offset": 0, "end_offset": 0, "next": 0})
        equal(vhost.api.get(path + "from=last")["messages"], [])
        channel.confirm_delivery()
        for number in range(300):
            channel.basic_publish("", "events", str(number).encode(), pika.BasicProperties(message_id=str(number)))

        def page(query):
            begin = time.monotonic()
            told = vhost.api.get(path + query)
            assert time.monotonic() - begin < 30, query
            seen = [message["offset"] for message in told["messages"]]
            equal([int(message["payload"]) for message in told["messages"]], seen, query)
            equal((told["first_offset"], told["end_offset"]), (0, 300), query)
            return seen, told["next"]

        equal(page(""), (list(range(10)), 10))
        seen, place = [], "first"
        while len(seen) < 300:
            more, place = page(f"from={place}&count=70")
            seen += more
        equal((seen, place), (list(range(300)), 300))
        equal(page("from=next"), ([], 300))
        equal(page("from=300"), ([], 300))
        equal(page("from=1000"), ([], 300))
        equal(page("from=250&count=5"), ([250, 251, 252, 253, 254], 255))
        equal(page("last=3"), ([297, 298, 299], 300))
        equal(page("last=400"), (list(range(300)), 300))
        equal(page("from=1h&count=2"), ([0, 1], 2))
        equal(page("from=2020-01-01T00:00:00Z&count=2"), ([0, 1], 2))
        seen, place = page("from=last&count=500")
        equal((seen[-1:], place), ([299], 300))
        equal(vhost.api.get(path + "from=7&count=1")["messages"][0]["properties"]["message_id"], "7")
        for query in ("from=x", "from=-1", "from=", "from=2020-01-01", "offset=1", "position=1", "from=1&last=1", "last=501"):
            equal(vhost.api.status("GET", path + query), 400, query)
        _, _, answer = vhost.api.ask("GET", path + "from=x")
        assert answer["reason"].startswith("from is none of first, last, next"), answer
        equal(page("last=1"), ([299], 300))
    finally:
        connection.close()


def redriven(vhost):
    connection, channel = fill(vhost, 30)
    try:
        eventually(lambda: depth(channel, "dead") == 30, "the dead")
        channel.basic_publish("", "dead", b"never died", pika.BasicProperties(delivery_mode=2))
        path = f"/x/queues/{vhost.name}/dead/"
        begin = time.monotonic()
        status, _, answer = vhost.api.ask("POST", path + "redrive", {"count": 10, "rate": 10})
        equal((status, answer), (200, {"moved": 10, "unplaced": 0, "is_over": True}))
        assert time.monotonic() - begin > 0.9, "ten at ten a second"
        equal(vhost.api.ask("POST", path + "redrive", {})[2], {"moved": 20, "unplaced": 1, "is_over": True})
        equal((depth(channel, "orders"), depth(channel, "dead")), (30, 1))
        for number in range(30):
            _, properties, body = channel.basic_get("orders", auto_ack=True)
            equal((body, properties.message_id, properties.headers), (str(number).encode(), str(number), {"kept": number}))
        status, _, answer = vhost.api.ask("POST", path + "move", {"exchange": "", "routing_key": "orders"})
        equal((status, answer), (200, {"moved": 1, "unplaced": 0, "is_over": True}))
        equal(channel.basic_get("orders", auto_ack=True)[2], b"never died")
        equal(vhost.api.status("POST", path + "move", {"exchange": "none", "routing_key": "x"}), 200)
    finally:
        connection.close()


def refused(vhost):
    """Messages that the goal refuses stay as they were, however often they are moved."""
    connection = vhost.client()
    channel = connection.channel()
    try:
        channel.confirm_delivery()
        for queue in ("from", "goal"):
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 2})
        for number in range(3):
            channel.basic_publish("", "from", str(number).encode())
        path = f"/x/queues/{vhost.name}/from/move"
        for _ in range(6):
            status, _, answer = vhost.api.ask("POST", path, {"exchange": "none", "routing_key": "goal"})
            equal((status, "404" in answer["reason"]), (400, True))
            eventually(lambda: depth(channel, "from") == 3, "all are back")
        status, _, answer = vhost.api.ask("POST", path, {"exchange": "", "routing_key": "nowhere"})
        equal((status, answer), (200, {"moved": 0, "unplaced": 3, "is_over": True}))
        eventually(lambda: depth(channel, "from") == 3, "all are back")
        for number in range(3):
            _, properties, body = channel.basic_get("from")
            equal((body, "x-delivery-count" in (properties.headers or {})), (str(number).encode(), False))
        channel.basic_nack(0, multiple=True, requeue=True)
        eventually(lambda: depth(channel, "from") == 3, "all are back")
        status, _, answer = vhost.api.ask("POST", path, {"exchange": "", "routing_key": "goal"})
        equal((status, answer), (200, {"moved": 3, "unplaced": 0, "is_over": True}))
    finally:
        connection.close()


def hidden(vhost, others=150, most=10_000):
    """Dead messages behind some that never died, and behind too many of them."""
    connection = vhost.client()
    channel = connection.channel()
    channel.queue_declare("dead", durable=True)
    for _ in range(others):
        channel.basic_publish("", "dead", b"never died")
    eventually(lambda: depth(channel, "dead") == others, "those in front")
    filling, _ = fill(vhost, 5)
    try:
        eventually(lambda: depth(channel, "dead") == others + 5, "the dead")
        path = f"/x/queues/{vhost.name}/dead/redrive"
        for moved, left in ((3, 2), (2, 0)):
            status, _, answer = vhost.api.ask("POST", path, {"count": 3})
            equal((status, answer), (200, {"moved": moved, "unplaced": others, "is_over": True}))
            eventually(lambda: depth(channel, "dead") == others + left, "who stays")
        equal(depth(channel, "orders"), 5)
        for _ in range(most + 1 - others):
            channel.basic_publish("", "dead", b"never died")
        eventually(lambda: depth(channel, "dead") == most + 1, "all of them")
        status, _, answer = vhost.api.ask("POST", path, {})
        equal((status, answer), (200, {"moved": 0, "unplaced": most, "is_over": False}))
        eventually(lambda: depth(channel, "dead") == most + 1, "all are back")
    finally:
        filling.close()
        connection.close()


def copied(vhost):
    """A message that had copies moves alone."""
    connection = vhost.client()
    channel = connection.channel()
    try:
        channel.confirm_delivery()
        for queue in ("first", "second", "goal"):
            channel.queue_declare(queue, durable=True)
        headers = {"CC": ["second"], "kept": 1}
        channel.basic_publish("", "first", b"x", pika.BasicProperties(headers=headers))
        equal((depth(channel, "first"), depth(channel, "second")), (1, 1))
        path = f"/x/queues/{vhost.name}/first/move"
        status, _, answer = vhost.api.ask("POST", path, {"exchange": "", "routing_key": "goal"})
        equal((status, answer), (200, {"moved": 1, "unplaced": 0, "is_over": True}))
        equal([depth(channel, queue) for queue in ("first", "second", "goal")], [0, 1, 1])
        equal(channel.basic_get("goal", auto_ack=True)[1].headers, {"kept": 1})
    finally:
        connection.close()


def chosen(vhost, kind):
    """Messages in the middle of a queue are moved and deleted by the positions they were shown with."""
    connection = vhost.client()
    channel = connection.channel()
    try:
        channel.confirm_delivery()
        channel.queue_declare("from", durable=True, arguments={"x-queue-type": kind, "x-single-active-consumer": True})
        channel.queue_declare("goal", durable=True)
        for number in range(20):
            headers = {"number": number} if number % 2 else None
            channel.basic_publish("", "from", str(number).encode(), pika.BasicProperties(headers=headers))
        path = f"/x/queues/{vhost.name}/from/"

        def shown():
            messages = vhost.api.get(path + "messages?count=100")["messages"]
            return {message["payload"]: message["position"] for message in messages}

        def ask(verb, positions, **more):
            status, _, answer = vhost.api.ask("POST", path + verb, {"positions": positions, **more})
            return status, answer

        goal = {"exchange": "", "routing_key": "goal"}
        at = shown()
        equal(list(at), [str(number) for number in range(20)])
        equal([message["properties"] for message in vhost.api.get(path + "messages?count=2")["messages"]],
              [[], {"headers": {"number": 1}}])
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("from", lambda *given: None)
        eventually(lambda: list(shown()) == [str(number) for number in range(1, 20)], "one is held")
        gone = max(at.values()) + 1
        equal(ask("move", [at["7"], at["0"], gone, at["3"]], **goal),
              (200, {"moved": 2, "unplaced": 0, "missing": [at["0"], gone], "is_over": True}))
        equal(ask("delete", [at["5"], at["7"], at["19"], at["0"]]), (200, {"deleted": 2, "missing": [at["7"], at["0"]]}))
        equal(ask("move", [at["4"], at["6"]], exchange="", routing_key="nowhere"),
              (200, {"moved": 0, "unplaced": 2, "missing": [], "is_over": True}))
        status, answer = ask("move", [at["4"]], exchange="none", routing_key="goal")
        equal((status, "404" in answer["reason"]), (400, True))
        left = [number for number in range(1, 19) if number not in (3, 5, 7)]
        eventually(lambda: shown() == {str(number): at[str(number)] for number in left}, "the others are where they were")
        for number in (7, 3):
            _, properties, body = channel.basic_get("goal", auto_ack=True)
            equal((body, properties.headers), (str(number).encode(), {"number": number}))
        channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
        for verb in ("move", "delete"):
            equal(vhost.api.status("POST", f"/x/queues/{vhost.name}/log/{verb}", {"positions": [0], **goal}), 400)
        equal(ask("redrive", [at["8"]]), (200, {"moved": 0, "unplaced": 1, "missing": [], "is_over": True}))
        connection.close()
        connection = vhost.client()
        channel = connection.channel()
        eventually(lambda: depth(channel, "from") == len(left) + 1, "all are back")
        bodies = []
        channel.basic_consume("from", lambda _, method, properties, body: bodies.append(int(body)), auto_ack=True)
        eventually(lambda: connection.process_data_events(0.1) or len(bodies) == len(left) + 1, "all are read")
        equal(sorted(bodies), [0, *left])
        user = f"{vhost.name}-blind"
        equal(vhost.api.status("PUT", f"/users/{user}", {"password": user, "tags": "management"}), 201)
        may = {"configure": ".*", "write": ".*", "read": ""}
        equal(vhost.api.status("PUT", f"/permissions/{vhost.name}/{user}", may), 201)
        refused = [vhost.api.ask("POST", path + verb, {"positions": [1], **goal}, user=user)[0] for verb in ("move", "delete")]
        equal(refused, [401, 401])
        vhost.api.status("DELETE", f"/users/{user}")
    finally:
        connection.close()


def wanted(vhost, kind):
    """Messages are moved, deleted, accepted and rejected by what is in them, piece by piece."""
    connection = vhost.client()
    channel = connection.channel()
    try:
        channel.confirm_delivery()
        for name, arguments in (("dead", {}), ("goal", {}),
                                ("from", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-queue-type": kind})):
            channel.queue_declare(name, durable=True, arguments=arguments)
        for number in range(2_000):
            channel.basic_publish("", "from", b'{"k":%d}' % (number % 100), pika.BasicProperties(delivery_mode=2))
        path = f"/x/queues/{vhost.name}/from/"

        def all_of(verb, where, what, **more):
            """So many it were, and whether it took more than one request."""
            body, count, requests = {"where": where, **more}, 0, 0
            while True:
                told = vhost.api.ask("POST", path + verb, body)[2]
                count, requests = count + told[what], requests + 1
                if told["next_position"] is None:
                    return count, requests > 1
                body["position"] = told["next_position"]

        goal = {"exchange": "", "routing_key": "goal"}
        equal(all_of("move", "body.k = 7", "moved", **goal), (20, False))
        equal(all_of("move", "body.k = 8", "moved", count=5, **goal), (20, True))
        equal(all_of("delete", "body.k BETWEEN 10 AND 19", "deleted")[0], 200)
        equal(all_of("settle", "body.k = 20", "settled", outcome="rejected")[0], 20)
        equal(all_of("settle", "body.k = 21", "settled", outcome="accepted")[0], 20)
        equal(all_of("settle", "body.k = 21", "settled", outcome="accepted")[0], 0)
        eventually(lambda: [depth(channel, name) for name in ("from", "goal", "dead")] == [1_720, 40, 20], "they are where they are to be")
        for body, status in (({"where": "body.k = "}, 400), ({"where": "TRUE", "positions": [1]}, 400), ({"where": 5}, 400),
                             ({}, 400), ({"where": "TRUE", "position": -1}, 400)):
            equal(vhost.api.status("POST", path + "delete", body), status, str(body))
        for outcome in (None, "lost", 5):
            body = {"where": "TRUE", **({} if outcome is None else {"outcome": outcome})}
            equal(vhost.api.status("POST", path + "settle", body), 400, str(outcome))
        equal(depth(channel, "from"), 1_720)
    finally:
        connection.close()


def large(binary, make_api, make_vhost, size=20 << 20):
    """A message as large as only a configuration permits is looked at, got and moved."""
    settings = ["management.tcp.ip=127.0.0.1", "management.tcp.port=0", f"max_message_size={size}"]
    broker = Broker(binary, settings).start()
    try:
        with make_vhost(make_api(broker)) as vhost:
            connection = vhost.client()
            channel = connection.channel()
            channel.confirm_delivery()
            for queue in ("from", "goal"):
                channel.queue_declare(queue, durable=True)
            channel.basic_publish("", "from", bytes(size))
            path = f"/queues/{vhost.name}/from/"
            shown = vhost.api.get(f"/x{path}messages?truncate=1")["messages"]
            equal([message["payload_bytes"] for message in shown], [size])
            get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 1}
            status, _, answer = vhost.api.ask("POST", path + "get", get)
            equal((status, [message["payload_bytes"] for message in answer]), (200, [size]))
            status, _, answer = vhost.api.ask("POST", f"/x{path}move", {"exchange": "", "routing_key": "goal"})
            equal((status, answer), (200, {"moved": 1, "unplaced": 0, "is_over": True}))
            equal((depth(channel, "from"), len(channel.basic_get("goal", auto_ack=True)[2])), (0, size))
            connection.close()
    finally:
        broker.close()


def killed(binary, make_api, make_vhost, count=2000):
    """The broker is killed while messages go back: each is in one of both queues, or in both."""
    settings = ["management.tcp.ip=127.0.0.1", "management.tcp.port=0"]
    broker = Broker(binary, settings).start()
    try:
        vhost = make_vhost(make_api(broker))
        with vhost:
            connection, channel = fill(vhost, count)
            eventually(lambda: depth(channel, "dead") == count, "the dead", 20)

            def redrive():
                try:
                    vhost.api.ask("POST", f"/x/queues/{vhost.name}/dead/redrive", {})
                except OSError:
                    pass

            thread = threading.Thread(target=redrive)
            thread.start()
            eventually(lambda: depth(channel, "orders") > count // 10, "some are back", 20, 0.001)
            broker.kill()
            thread.join()
            broker.start()
            vhost.api = make_api(broker)
            connection = vhost.client()
            channel = connection.channel()
            seen = []
            for queue in ("orders", "dead"):
                bodies = []
                while (found := channel.basic_get(queue, auto_ack=True))[0]:
                    bodies.append(int(found[2]))
                seen.append(bodies)
            connection.close()
            equal(sorted(set(seen[0] + seen[1])), list(range(count)), "each is somewhere")
            assert seen[0] and seen[1], "the broker was killed too early or too late"
            twice = len(seen[0]) + len(seen[1]) - count
            assert twice >= 0, twice
    finally:
        broker.close()


def chosen_killed(binary, make_api, make_vhost, count=300):
    """Positions stay what they were when the broker was killed, and messages come from disk."""
    broker = Broker(binary, ["management.tcp.ip=127.0.0.1", "management.tcp.port=0"]).start()
    try:
        vhost = make_vhost(make_api(broker))
        with vhost:
            connection = vhost.client()
            channel = connection.channel()
            channel.confirm_delivery()
            for queue in ("from", "goal"):
                channel.queue_declare(queue, durable=True)
            for number in range(count):
                body = f"{number:05}".encode().ljust(20_000, b".")
                channel.basic_publish("", "from", body, pika.BasicProperties(delivery_mode=2))
            path = f"/x/queues/{vhost.name}/from/"

            def shown():
                page = vhost.api.get(path + f"messages?count={count}&truncate=5")
                return {int(message["payload"]): message["position"] for message in page["messages"]}

            def kill():
                broker.kill()
                broker.start()
                vhost.api = make_api(broker)

            at = shown()
            equal(list(at), list(range(count)))
            kill()
            equal(shown(), at)
            moved = [at[number] for number in range(10, count, 20)]
            status, _, answer = vhost.api.ask("POST", path + "move", {"exchange": "", "routing_key": "goal", "positions": moved})
            equal((status, answer), (200, {"moved": len(moved), "unplaced": 0, "missing": [], "is_over": True}))
            deleted = [at[number] for number in range(0, count, 20)]
            equal(vhost.api.ask("POST", path + "delete", {"positions": deleted})[2], {"deleted": len(deleted), "missing": []})
            left = {number: position for number, position in at.items() if number % 10}
            equal(shown(), left)
            # The result of settling may be on disk a moment after the answer: a publish that is confirmed is behind it.
            connection = vhost.client()
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("", "goal", b"last", pika.BasicProperties(delivery_mode=2))
            channel.basic_publish("", "from", b"99999", pika.BasicProperties(delivery_mode=2))
            kill()
            equal(shown(), left | {99999: count + at[0]})
            connection = vhost.client()
            channel = connection.channel()
            bodies = [channel.basic_get("goal", auto_ack=True)[2] for _ in range(len(moved) + 1)]
            equal([body[:5] for body in bodies], [f"{number:05}".encode() for number in range(10, count, 20)] + [b"last"])
            connection.close()
    finally:
        broker.close()


def stopped(binary, make_api, make_vhost, count=200):
    """The broker is stopped while messages go back slowly."""
    settings = ["management.tcp.ip=127.0.0.1", "management.tcp.port=0"]
    broker = Broker(binary, settings).start()
    try:
        vhost = make_vhost(make_api(broker))
        with vhost:
            _, channel = fill(vhost, count)
            eventually(lambda: depth(channel, "dead") == count, "the dead", 20)

            def redrive():
                try:
                    vhost.api.ask("POST", f"/x/queues/{vhost.name}/dead/redrive", {"rate": 1})
                except OSError:
                    pass

            thread = threading.Thread(target=redrive)
            thread.start()
            eventually(lambda: depth(channel, "orders") > 0, "some are back", 20)
            begin = time.monotonic()
            broker.stop()
            took = time.monotonic() - begin
            thread.join()
            assert took < 10, f"the stop took {took:.1f} s"
            broker.start()
            vhost.api = make_api(broker)
            connection = vhost.client()
            channel = connection.channel()
            seen = []
            for queue in ("orders", "dead"):
                while (found := channel.basic_get(queue, auto_ack=True))[0]:
                    seen.append(int(found[2]))
            connection.close()
            equal(sorted(seen), list(range(count)), "each is somewhere, and once")
    finally:
        broker.close()


def alarmed(binary, make_api, make_vhost):
    """More disk is demanded than there is: who would move messages is told so at once; one message is published, and who only looks is served."""
    settings = ["management.tcp.ip=127.0.0.1", "management.tcp.port=0", "disk_free_limit.absolute=900000000000000"]
    broker = Broker(binary, settings).start()
    try:
        with make_vhost(make_api(broker)) as vhost:
            equal(vhost.api.status("PUT", f"/queues/{vhost.name}/own", {"durable": True}), 201)
            eventually(lambda: vhost.api.status("GET", "/health/checks/local-alarms") == 503, "the alarm")
            message = {"properties": {}, "routing_key": "own", "payload": "x", "payload_encoding": "string"}
            goal = {"exchange": "", "routing_key": "other"}
            get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
            for verb, path, body, expected in (
                ("POST", f"/exchanges/{vhost.name}/amq.default/publish", message, 200),
                ("POST", f"/x/queues/{vhost.name}/own/move", goal, 503),
                ("GET", f"/aliveness-test/{vhost.name}", None, 200),
                ("POST", f"/queues/{vhost.name}/own/get", get, 200),
            ):
                begin = time.monotonic()
                equal((path, vhost.api.status(verb, path, body)), (path, expected))
                assert time.monotonic() - begin < 5, f"{path} waited for the alarm"
    finally:
        broker.close()


def routed(vhost):
    connection = vhost.client()
    try:
        channel = connection.channel()
        for queue, key in (("stock", "stock.*"), ("bond", "bond.#")):
            channel.queue_declare(queue, exclusive=True)
            channel.queue_bind(queue, "amq.topic", key)
        path = f"/x/exchanges/{vhost.name}/amq.topic/route"
        status, _, found = vhost.api.ask("POST", path, {"routing_key": "stock.nyse"})
        equal((status, found["routed"], found["queues"]), (200, True, ["stock"]))
        told = {own["destination"]: (own["matched"], own["why"]) for own in found["bindings"]}
        equal(told, {"stock": (True, "the message goes there by this binding"),
                     "bond": (False, "the key 'stock.nyse' does not match the pattern 'bond.#'")})
        equal(vhost.api.ask("POST", path, {"routing_key": "x"})[2]["queues"], [])
        equal(depth(channel, "stock"), 0)
    finally:
        connection.close()


class Listener:
    """A raw socket that asked for events."""

    def __init__(self, api, query, user="guest"):
        self.socket = socket.create_connection((api.host, api.port), timeout=15)
        token = base64.b64encode(f"{user}:{user}".encode()).decode()
        self.socket.sendall(f"GET /api/x/events{query} HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {token}\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while line := self.file.readline().strip():
            name, text = line.decode().split(": ", 1)
            self.headers[name.lower()] = text

    def event(self):
        """The next one; None: there are no more."""
        size = self.file.readline()
        if not size or int(size, 16) == 0:
            return None
        data = self.file.read(int(size, 16))
        equal(self.file.readline(), b"\r\n")
        head, text = data.decode().split("\n", 1)
        equal((head, text[:6], text[-2:]), ("event: rates", "data: ", "\n\n"))
        return json.loads(text[6:])

    def close(self):
        self.file.close()
        self.socket.close()


def heard(vhost):
    connection = vhost.client()
    channel = connection.channel()
    channel.confirm_delivery()
    names = {"classic": {}, "quorum": {"x-queue-type": "quorum"}}
    for name, arguments in names.items():
        channel.queue_declare(name, durable=True, arguments=arguments)
    query = f"?vhost={vhost.name}&queue=classic&queue=quorum&queue=later"
    own = Listener(vhost.api, query)
    try:
        equal((own.status, own.headers["content-type"]), (200, "text/event-stream"))
        first = own.event()
        equal(first["milliseconds"], None)
        equal([queue["name"] for queue in first["queues"]], ["classic", "quorum", "later"])
        equal(first["queues"][2], {"name": "later", "vhost": vhost.name, "gone": True})
        for name, count in (("classic", 30), ("quorum", 20)):
            for _ in range(count):
                channel.basic_publish("", name, b"x")
        channel.queue_declare("later", durable=True)
        published, events = {"classic": 0.0, "quorum": 0.0}, 0
        while events < 8 and sum(published.values()) < 49.9:
            event, events = own.event(), events + 1
            assert 900 < event["milliseconds"] < 5000, event["milliseconds"]
            for queue in event["queues"][:2]:
                published[queue["name"]] += queue["message_stats"]["publish_details"]["rate"] * event["milliseconds"] / 1000
        equal({name: round(count) for name, count in published.items()}, {"classic": 30, "quorum": 20})
        equal([queue.get("messages") for queue in event["queues"]], [30, 20, 0])
        assert event["message_stats"]["publish"] - first["message_stats"]["publish"] >= 50
        # Others are answered as ever while many listen.
        others, late = [], None
        while late is None and len(others) < 260:
            other = Listener(vhost.api, "")
            if other.status == 200:
                others.append(other)
            else:
                late = other
        # A user has a quarter of the places, which are as many as files may be open.
        assert late and len(others) >= 4, len(others)
        begin = time.monotonic()
        equal((late.status, vhost.api.status("GET", "/overview")), (429, 200))
        assert time.monotonic() - begin < 2, "who listens holds others up"
        for other in [*others, late]:
            other.close()
        user = vhost.name + "-ear"
        equal(vhost.api.status("PUT", f"/users/{user}", {"password": user, "tags": "management"}), 201)

        def alone(query):
            listener = Listener(vhost.api, query, user)
            listener.close()
            return listener.status

        eventually(lambda: alone("?count=1") == 200, "places of who left")
        for asked, status in ((query, 404), (f"?vhost={vhost.name}", 200), ("?queue=x", 400), ("?count=0", 400)):
            eventually(lambda: alone(asked) == status, f"{asked} is answered with {status}")
        ear = Listener(vhost.api, "", user)
        equal((ear.status, ear.event()["message_stats"]["publish"]), (200, 0))
        equal(vhost.api.status("DELETE", f"/users/{user}"), 204)
        while ear.event() is not None:
            pass
        ear.close()
    finally:
        own.close()
        connection.close()


def unheard(binary, make_api, make_vhost):
    broker = Broker(binary, ["management.tcp.ip=127.0.0.1", "management.tcp.port=0"]).start()
    try:
        api = make_vhost(make_api(broker)).api
        own = [Listener(api, "") for _ in range(5)]
        for listener in own:
            equal(listener.status, 200)
            listener.event()
        begin = time.monotonic()
        broker.stop()
        took = time.monotonic() - begin
        assert took < 10, f"the stop took {took:.1f} s"
        for listener in own:
            try:
                while listener.event() is not None:
                    pass
            except ConnectionError:
                pass
            listener.close()
    finally:
        broker.close()
