//go:build linux

package kubernetes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// agent is setpoint agent kubernetes with an account of its own.
type agent struct {
	*service.Agent
	t       testing.TB
	account *kubetest.Account
}

// recommender is a service for an agent.
type recommender interface{ GRPCAddr() string }

// newAgent makes one that serves a namespace's autoscalers, and does not start it.
// Flags win over the kit's own.
func newAgent(t testing.TB, c *kubetest.Cluster, namespace string, s recommender, flags ...string) *agent {
	t.Helper()
	name := "agent-" + strings.ToLower(fmt.Sprintf("%x", time.Now().UnixNano()))
	account := c.Account(t, namespace, name)
	c.Grant(t, account, leastRules(t)...)
	return newAgentAs(t, account, namespace, s, flags...)
}

// newAgentAs makes one with an account that is there.
func newAgentAs(t testing.TB, account *kubetest.Account, namespace string, s recommender, flags ...string) *agent {
	t.Helper()
	return &agent{t: t, account: account, Agent: service.NewAgent(t, "kubernetes", s, append([]string{
		"--insecure", "--kubeconfig=" + account.Kubeconfig, "--namespace=" + namespace, "--sync-period=" + syncPeriod.String(),
	}, flags...)...)}
}

// startAgent starts one and waits until it is ready.
func startAgent(t testing.TB, c *kubetest.Cluster, namespace string, s recommender, flags ...string) *agent {
	t.Helper()
	a := newAgent(t, c, namespace, s, flags...)
	a.Start()
	a.AwaitReady()
	return a
}
