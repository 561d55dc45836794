package swarm

import (
	"testing"

	"github.com/moby/moby/api/types/swarm"
)

func TestRivalsAreSeen(t *testing.T) {
	t.Parallel()
	service := func(name string, replicas uint64, env string, words ...string) swarm.Service {
		var s swarm.Service
		s.Spec.Name = name
		s.Spec.TaskTemplate.ContainerSpec = &swarm.ContainerSpec{Command: words[:1], Args: words[1:], Env: []string{env}}
		s.Spec.Mode.Replicated = &swarm.ReplicatedService{Replicas: &replicas}
		return s
	}
	const two = "2 agents run in this swarm (a_agent, b_agent), and each undoes the counts of the other: keep one"
	for _, tt := range []struct {
		name     string
		services []swarm.Service
		want     string
	}{
		{"one, and its nodes", []swarm.Service{service("a_agent", 1, "", "/setpoint-swarm", "agent"), service("a_node", 3, "", "/setpoint-swarm", "node"), service("web", 9, "", "nginx")}, ""},
		{"two replicas", []swarm.Service{service("a_agent", 2, "", "/setpoint-swarm", "agent")}, "2 agents run in this swarm (a_agent), and each undoes the counts of the other: keep one"},
		{"two stacks, of other clusters", []swarm.Service{service("b_agent", 1, "SETPOINT_CLUSTER=b", "agent", "swarm"), service("a_agent", 1, "SETPOINT_CLUSTER=a", "/setpoint-swarm", "agent")}, two},
		{"a shadow", []swarm.Service{service("a_agent", 1, "", "/setpoint-swarm", "agent"), service("b_agent", 1, "SETPOINT_SHADOW=true", "/setpoint-swarm", "agent")}, ""},
		{"a shadow in other words", []swarm.Service{service("a_agent", 1, "", "/setpoint-swarm", "agent"), service("b_agent", 1, "", "/setpoint-swarm", "agent", "--shadow=true"), service("c_agent", 1, "SETPOINT_SHADOW=1", "/setpoint-swarm", "agent")}, ""},
		{"no shadow", []swarm.Service{service("a_agent", 1, "SETPOINT_SHADOW=false", "/setpoint-swarm", "agent"), service("b_agent", 1, "", "/setpoint-swarm", "agent", "--shadow=false")}, two},
		{"another program's agent", []swarm.Service{service("a_agent", 1, "", "/setpoint-swarm", "agent"), service("portainer", 1, "", "/agent", "agent")}, ""},
	} {
		if got := Rivals(tt.services); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
