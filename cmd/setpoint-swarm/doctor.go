package main

import (
	"context"
	"errors"
	"strings"

	"github.com/setpoint-dev/setpoint/clients/swarm"
	"github.com/setpoint-dev/setpoint/cmd/internal/doctor"
)

// most bounds the findings of one check.
const most = 20

// checks are those of the swarm.
func checks(engine *swarm.Engine, platform *swarm.Platform) []doctor.Check {
	const swarmCheck = "swarm"
	return []doctor.Check{
		{Name: swarmCheck, Run: func(ctx context.Context) []doctor.Finding {
			id, err := engine.ClusterID(ctx)
			if err != nil {
				return doctor.Bad("set --docker-host to the socket of a manager's engine, and let the agent read it (root, or the group docker)", "the engine does not answer: %v", err)
			}
			return doctor.Good("the engine is that of a manager of the swarm %s", id)
		}},
		{Name: "agents", After: swarmCheck, Run: func(ctx context.Context) []doctor.Finding {
			services, err := engine.All(ctx)
			if err != nil {
				return doctor.Bad("look into the log of the engine", "services can't be listed: %v", err)
			}
			if rivals := swarm.Rivals(services); rivals != "" {
				return doctor.Bad("docker service scale NAME=0, or --shadow for all but one", "%s", rivals)
			}
			return doctor.Good("at most one agent runs as a service")
		}},
		{Name: "services", After: swarmCheck, Run: func(ctx context.Context) []doctor.Finding { return services(ctx, engine, platform) }},
	}
}

// services checks the labels of all services.
func services(ctx context.Context, engine *swarm.Engine, platform *swarm.Platform) []doctor.Finding {
	all, err := engine.All(ctx)
	if err != nil {
		return doctor.Bad("look into the log of the engine", "services can't be listed: %v", err)
	}
	var out []doctor.Finding
	enabled := 0
	for i := range all {
		s := &all[i]
		if len(out) >= most {
			break
		}
		if !swarm.Enabled(s.Spec.Labels) {
			if c := s.Spec.TaskTemplate.ContainerSpec; c != nil && swarm.Enabled(c.Labels) {
				out = append(out, doctor.Bad("write the labels under deploy: in the stack file, or with --label-add", "%s has %s as a label of its containers, where it does nothing", s.Spec.Name, swarm.EnableLabel)...)
			}
			continue
		}
		enabled++
		wants, _, err := platform.Read(s)
		if wrong := (*swarm.LabelError)(nil); errors.As(err, &wrong) {
			out = append(out, doctor.Bad("correct the labels", "%s: %v", s.Spec.Name, wrong)...)
			continue
		}
		if missing := swarm.WithoutRequest(s, wants); len(missing) > 0 {
			out = append(out, doctor.Bad("set resources.reservations or limits of the service", "%s has no reservation and no limit of %s, of which the percentage would be", s.Spec.Name, strings.Join(missing, ", "))...)
		}
	}
	if enabled == 0 {
		return append(doctor.Notice("give a service the label "+swarm.EnableLabel+"=true and "+"setpoint.max", "no service has opted in"), out...)
	}
	return append(doctor.Good("%d services have opted in", enabled), out...)
}
