package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	dockerswarm "github.com/moby/moby/api/types/swarm"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/swarm"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/doctor"
)

// checks are those of the swarm.
func checks(engine *swarm.Engine, platform *swarm.Platform) []doctor.Check {
	const swarmCheck = "swarm"
	return []doctor.Check{
		{Name: swarmCheck, Run: func(ctx context.Context) []doctor.Finding {
			id, err := engine.ClusterID(ctx)
			switch {
			case err != nil && strings.Contains(err.Error(), "not have a leader"):
				return doctor.Bad("start the managers that are missing: the agent goes on by itself then", "the swarm can't be asked: %v", err)
			case errors.Is(err, context.DeadlineExceeded):
				return doctor.Bad("does docker node ls on that node answer?", "the swarm can't be asked: %v", err)
			case err != nil:
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
		{Name: "nodes", After: swarmCheck, Run: func(ctx context.Context) []doctor.Finding { return nodesOf(ctx, engine) }},
		{Name: "services", After: swarmCheck, Run: func(ctx context.Context) []doctor.Finding { return services(ctx, engine, platform) }},
	}
}

// nodesOf checks that usage is reported from each node.
func nodesOf(ctx context.Context, engine *swarm.Engine) []doctor.Finding {
	services, err := engine.All(ctx)
	var missing []string
	found := false
	if err == nil {
		missing, found, err = engine.Unreported(ctx, services)
	}
	switch {
	case err != nil:
		return doctor.Bad("look into the log of the engine", "nodes and their tasks can't be listed: %v", err)
	case !found:
		return doctor.Notice("unless a unit runs it on each node, or --usage-source has the usage, deploy it as in deploy/swarm/stack.yaml", "no service runs setpoint-swarm node")
	case len(missing) > 0:
		return doctor.Bad("docker service ps of that service says why; it must be a global one without constraints", "no task of setpoint-swarm node runs on %s, so usage of tasks there is missing", strings.Join(missing, ", "))
	}
	return doctor.Good("a task of setpoint-swarm node runs on each node; status says whose reports do not arrive")
}

// asks are the services that are to be scaled and can be.
func asks(ctx context.Context, engine *swarm.Engine, platform *swarm.Platform) (out []agentcmd.Ask) {
	all, err := engine.Services(ctx)
	if err != nil {
		return nil
	}
	for i := range all {
		wants, _, err := platform.Read(&all[i])
		if err == nil && swarm.Unscalable(&all[i]) == nil {
			out = append(out, agentcmd.Ask{Key: swarm.KeyOf(&all[i]), Request: &setpointv1.RecommendRequest{Spec: wants.Spec, Stages: wants.Stages, Fleet: wants.Fleet}})
		}
	}
	return out
}

// services checks the labels of all services.
func services(ctx context.Context, engine *swarm.Engine, platform *swarm.Platform) []doctor.Finding {
	all, err := engine.All(ctx)
	if err != nil {
		return doctor.Bad("look into the log of the engine", "services can't be listed: %v", err)
	}
	slices.SortFunc(all, func(a, b dockerswarm.Service) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	var out []doctor.Finding
	enabled := 0
	for i := range all {
		s := &all[i]
		if !swarm.Enabled(s.Spec.Labels) {
			if c := s.Spec.TaskTemplate.ContainerSpec; c != nil && swarm.Enabled(c.Labels) {
				out = append(out, doctor.Bad("write the labels under deploy: in the stack file, or with --label-add", "%s has %s as a label of its containers, where it does nothing", s.Spec.Name, swarm.EnableLabel)...)
			} else if label := swarm.Idle(s.Spec.Labels); label != "" {
				out = append(out, doctor.Notice("set "+swarm.EnableLabel+"=true, or =false if that is meant", "%s has the label %s but not %s, so it is not scaled", s.Spec.Name, label, swarm.EnableLabel)...)
			}
			if other := swarm.Foreign(s.Spec.Labels); other != "" {
				out = append(out, doctor.Notice("docs/guides/migrate-from-swarm-autoscalers.md has the labels that replace it", "%s has the label %s of another autoscaler, which this agent does not read", s.Spec.Name, other)...)
			}
			continue
		}
		enabled++
		if other := swarm.Foreign(s.Spec.Labels); other != "" {
			out = append(out, doctor.Bad("docker service update --label-rm "+other+" "+s.Spec.Name, "%s also has the label %s of another autoscaler: each undoes the counts of the other", s.Spec.Name, other)...)
		}
		if hold := swarm.Unscalable(s); hold != nil {
			out = append(out, doctor.Bad("docker service update --label-rm "+swarm.EnableLabel+" "+s.Spec.Name, "%s", hold.Message)...)
			continue // whatever its other labels say
		}
		wants, _, err := platform.Read(s)
		if err != nil {
			out = append(out, doctor.Bad("correct the labels", "%s: %v", s.Spec.Name, err)...)
			continue
		}
		if unmeasured := platform.Unmeasured(wants); len(unmeasured) > 0 {
			out = append(out, doctor.Bad("set --nodes-address, or --usage-source", "%s is scaled by %s, and the agent has no source of usage", s.Spec.Name, strings.Join(unmeasured, ", "))...)
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
