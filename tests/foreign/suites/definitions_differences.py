"""Forms of definitions that are not answered as RabbitMQ 4.3.6 answers them: which parts of the answer differ, and why.

`docs/compatibility/differences.md` has them.
"""

LENGTH = "a hash that names no algorithm is known by its length: RabbitMQ before 3.6 named none"
NO_PASSWORD = "a hash that cannot be checked is not kept: the user is made without a password, and nobody logs in with either"
CLEAR = "it is clear what is meant"
SAID = "the file says it"
LONG = "no client could name it"
ENGINE = "no well-kept engine with a bound of steps has it"

DIFFERENCES = {
    "an MD5 hash without an algorithm": (("logins", "users"), LENGTH),
    "a SHA-512 hash without an algorithm": (("logins", "users"), LENGTH),
    "a SHA-256 hash called MD5": (("users",), NO_PASSWORD),
    "an MD5 hash called SHA-512": (("users",), NO_PASSWORD),
    "an algorithm that is not": (("users",), NO_PASSWORD),
    "an algorithm of elsewhere": (("users",), NO_PASSWORD),
    "base64 of three bytes": (("users",), NO_PASSWORD),
    "a user whose password is null": (("status",), "null is nothing"),
    "limits of users": (("status",), CLEAR),
    "a user twice": (("status",), "the last of a name counts"),
    "metadata": (("vhosts",), SAID),
    "a default type by its module": (("vhosts",), "the type has one name here"),
    "limits of a virtual host": (("parameters", "vhosts"), SAID),
    "limits of a virtual host as an old list": (("parameters", "vhosts"), SAID),
    "queue typed beside": (("queues",), SAID),
    "queue typed by a module": (("queues",), SAID),
    "queue texts for booleans": (("status",), CLEAR),
    "queue arguments null": (("status",), "null is nothing"),
    "queue x-queue-master-locator": (("queues",), "the queue is made without the argument: RabbitMQ leaves it out without a word"),
    "queue x-own": (("status",), "AMQP has null"),
    "queue amq.gen with a binding": (("status",), "the binding is left out with its queue"),
    "queue of no name": (("status",), LONG),
    "queue of a long name": (("status",), LONG),
    "queues null": (("status",), "null is nothing; RabbitMQ crashes"),
    "exchange internal": (("exchanges",), "RabbitMQ does not export internal exchanges"),
    "exchange of a long name": (("status",), LONG),
    "binding of the default exchange": (("bindings",), "every queue is bound to the default exchange by itself"),
    "binding of the log": (("status",), "an exchange that RabbitMQ has where its log goes to one"),
    "binding of the default exchange to no queue": (("status",), "every queue is bound to the default exchange by itself"),
    "binding without a key": (("bindings",), "the empty key, not the word undefined"),
    "parameter of nobody": (("status",), "kept, so that definitions lose nothing on their way"),
    "global parameter without a value": (("status",), "a value is missing; RabbitMQ keeps the word undefined"),
    "file of a chart": (("parameters", "vhosts"), "a limit below 0 is none, and is not shown"),
    "pattern recursion": (("status",), ENGINE),
    "pattern verb": (("status",), ENGINE),
    "pattern behind, bounded": (("status",), ENGINE),
    "pattern called by name": (("status",), ENGINE),
    "policy with a text for its priority": (("status",), CLEAR),
}
