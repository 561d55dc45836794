"""Does with the Python client what the suite asks for: a JSON object a line, answered by one."""

import concurrent.futures
import json
import pickle
import sys
import threading
from decimal import Decimal
from fractions import Fraction

import setpoint
from google.protobuf import json_format
from setpoint.v1 import target_service_pb2

client = None
watch = None


def read(json_value, message):
    return json_format.ParseDict(json_value, message)


def number(read):
    """Returns what JSON does not have: {"$Decimal": "50.5"}."""
    for kind in (Decimal, Fraction):
        if "$" + kind.__name__ in read:
            return kind(read["$" + kind.__name__])
    return read


def told(error):
    error = pickle.loads(pickle.dumps(error))  # as pools of processes do
    told = {"code": error.code.name, "message": error.message, "violations": [v.field for v in error.violations]}
    if error.reason is not None:
        told["reason"] = error.reason
    if error.retry_delay is not None:
        told["retryDelay"] = error.retry_delay
    return told


def opened(config):
    global client
    if client is not None:
        client.close()
    client = None
    tls = None
    if any(config.get(name) for name in ("caFile", "certFile", "keyFile", "serverName")):
        tls = setpoint.TLS(config.get("caFile"), config.get("certFile"), config.get("keyFile"), config.get("serverName"))
    token = config.get("token")
    if config.get("tokenNone"):
        token = lambda: ""
    if config.get("tokenFile"):
        token = setpoint.token_file(config["tokenFile"])
    options = {name: config[key] for name, key in (("timeout", "timeout"), ("max_batch", "maxBatch")) if key in config}
    names = {
        "maxAttempts": "max_attempts",
        "baseDelay": "base_delay",
        "maxDelay": "max_delay",
        "attemptTimeout": "attempt_timeout",
        "budgetReserve": "budget_reserve",
        "budgetRatio": "budget_ratio",
    }
    options["retry"] = setpoint.Retry(**{names[key]: value for key, value in config.get("retry", {}).items()})
    client = setpoint.Client(
        config["target"],
        insecure=config.get("insecure", False),
        tls=tls,
        token=token,
        token_over_insecure=config.get("tokenOverInsecure", False),
        **options,
        **config.get("options", {}),
    )


def do(command):
    op = command["op"]
    if op == "open":
        try:
            opened(command["config"])
        except (ValueError, TypeError) as error:
            return {"error": {"code": "CONFIG", "message": str(error)}}
        return {}
    if op == "recommend":
        return {"answer": json_format.MessageToDict(client.recommend(read(command["request"], setpoint.RecommendRequest())))}
    if op == "object":
        answer = client.recommend(command["request"])
        setpoint.check_answer(command["request"], answer)
        return {"answer": json_format.MessageToDict(answer)}
    if op == "batch":
        results = client.batch_recommend(
            command["requests"] if command.get("raw") else [read(one, setpoint.RecommendRequest()) for one in command["requests"]],
            timeout=command.get("timeout"),
        )
        return {
            "results": [
                {"error": told(error)} if error is not None else {"answer": json_format.MessageToDict(response)} for response, error in results
            ]
        }
    if op == "many":  # at once
        with concurrent.futures.ThreadPoolExecutor(len(command["requests"])) as pool:
            answers = pool.map(client.recommend, [read(one, setpoint.RecommendRequest()) for one in command["requests"]])
            return {"results": [{"answer": json_format.MessageToDict(one)} for one in answers]}
    if op == "report":
        return {"answer": json_format.MessageToDict(client.report_scale(read(command["request"], setpoint.ReportScaleRequest())))}
    if op == "get":
        return {"answer": json_format.MessageToDict(client.get_target(command["name"]))}
    if op == "list":
        return {"names": [target.name for target in client.list_targets(command["parent"])]}
    if op == "decisions":
        return {"names": [decision.recommendation_id for decision in client.list_decisions(command["name"])]}
    if op == "watch":
        global watch
        if watch is not None:
            watch.close()
        watch = client.watch_decisions(read(command["request"], setpoint.WatchDecisionsRequest()))
        return {"answer": json_format.MessageToDict(next(watch))}
    if op == "next":
        results = []
        while command["count"] > len([one for one in results if "decision" in one["answer"]]):
            results.append({"answer": json_format.MessageToDict(next(watch))})
        return {"results": results}
    if op == "closeAmidWatch":
        threading.Timer(command["after"], client.close).start()
        for _ in watch:
            pass
    if op == "unwatch":
        watch.close()
        watch = None
        return {}
    if op == "simulate":
        steps = client.simulate(read(command["request"], setpoint.SimulateRequest()), timeout=command.get("timeout"))
        results = []
        for step in steps:
            results.append({"answer": json_format.MessageToDict(step)})
            if len(results) == command.get("count"):
                steps.close()
        return {"results": results}
    if op == "delete":
        client.delete_target(command["name"])
        return {}
    if op == "setSpec":
        spec = client.set_target_spec(command["name"], read(command["request"], target_service_pb2.TargetSpec()))
        return {"answer": json_format.MessageToDict(spec)}
    if op == "getSpec":
        return {"answer": json_format.MessageToDict(client.get_target_spec(command["name"]))}
    if op == "specs":
        return {"names": [spec.name for spec in client.list_target_specs(command["parent"])]}
    if op == "deleteSpec":
        client.delete_target_spec(command["name"], etag=command.get("etag", ""))
        return {}
    if op == "close":
        client.close()
        return {}
    if op == "promote":
        spec = client.promote_shadow(command["name"], command["id"], command["etag"], condition=command.get("condition", ""))
        return {"answer": json_format.MessageToDict(spec)}
    if op == "fleet":
        return {"answer": json_format.MessageToDict(client.get_fleet(command["name"]))}
    if op == "override":
        override = command["request"] if command.get("raw") else read(command["request"], setpoint.Override())
        override = client.create_override(command["name"], override, override_id=command.get("id", ""))
        return {"answer": json_format.MessageToDict(override)}
    if op == "overrides":
        return {"names": [override.name for override in client.list_overrides(command["parent"], resource=command["name"])]}
    if op == "deleteOverride":
        client.delete_override(command["name"])
        return {}
    if op == "check":
        previous = command.get("previous")
        try:
            setpoint.check_answer(
                read(command["request"], setpoint.RecommendRequest()),
                read(command["answer"], setpoint.RecommendResponse()),
                now=command["now"],
                previous=previous and read(previous, setpoint.RecommendResponse()),
                unrecorded=command.get("unrecorded", False),
            )
        except setpoint.AnswerError as error:
            error = pickle.loads(pickle.dumps(error))
            return {"field": error.field}
        return {}
    raise ValueError(f"no such command: {op}")


for line in sys.stdin:
    try:
        said = do(json.loads(line, object_hook=number))
    except setpoint.Error as error:
        said = {"error": told(error)}
    except json_format.ParseError as error:
        said = {"error": {"code": "PARSE", "message": str(error)}}
    print(json.dumps(said), flush=True)
