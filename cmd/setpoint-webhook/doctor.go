package main

import (
	"context"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/webhook"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/doctor"
)

// most bounds the findings of one check.
const most = 20

// asks are the targets that are to be scaled, now or after a hold.
func asks(ctx context.Context, platform *webhook.Platform) (out []agentcmd.Ask) {
	targets, _ := platform.List(ctx)
	for _, o := range targets {
		if request := webhook.RequestOf(o); request != nil {
			out = append(out, agentcmd.Ask{Key: o.Key, Request: request})
		}
	}
	return out
}

// checks are those of the webhook server.
func checks(platform *webhook.Platform) []doctor.Check {
	return []doctor.Check{{Name: "webhook", Run: func(ctx context.Context) []doctor.Finding {
		targets, err := platform.List(ctx)
		if err != nil {
			return doctor.Bad("check --webhook-url, the keys on both sides, and the server's clock", "the targets are not listed: %v", err)
		}
		var out []doctor.Finding
		if problem := platform.Problem(); problem != "" {
			out = append(out, doctor.Bad("correct these entries", "%s", problem)...)
		}
		for _, o := range targets {
			switch {
			case len(out) >= most:
			case o.Hold != nil && o.Hold.Outcome == agent.OutcomeWaiting:
				out = append(out, doctor.Notice("", "%s/%s: %s", o.Key.Namespace, o.Key.Name, o.Hold.Message)...)
			case o.Hold != nil:
				out = append(out, doctor.Bad("correct the entry", "%s/%s: %s", o.Key.Namespace, o.Key.Name, o.Hold.Message)...)
			}
		}
		return append(doctor.Good("the server lists %d targets", len(targets)), out...)
	}}}
}
