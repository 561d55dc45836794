package agentcmd

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/doctor"
)

// Checks of the service that others come after.
const (
	serviceCheck = "service"
	tokenCheck   = "token"
	clusterCheck = "cluster"
)

// Bounds of what is no problem.
const (
	// maxSkew is between two clocks that somebody sets. Answers are refused above
	// setpoint.MaxClockSkew.
	maxSkew = 5 * time.Second
	// renewBefore is how soon before its end a certificate or token is worth a note.
	renewBefore = 7 * 24 * time.Hour
)

func (s *Settings) serviceChecks(p Program) []doctor.Check {
	a := &asked{settings: s, unresolved: cmp.Or(p.Unresolved, "correct the name in --server"), unanswered: cmp.Or(p.Unanswered, "check firewalls")}
	return []doctor.Check{
		{Name: serviceCheck, Run: a.service},
		{Name: "health", After: serviceCheck, Run: a.health},
		{Name: "tls", After: serviceCheck, Run: a.tls},
		{Name: tokenCheck, After: serviceCheck, Run: a.token},
		{Name: clusterCheck, After: tokenCheck, Run: a.cluster},
		{Name: "clock", After: tokenCheck, Run: a.clock},
	}
}

// asked is what the service said.
type asked struct {
	settings *Settings
	// unresolved and unanswered are the platform's remedies.
	unresolved, unanswered string
	// err is the error of the call, nil or one with which the service answered.
	err    error
	caller *setpointv1.Caller
	// state is what the service says of its health, unless that failed with stateErr.
	state    *healthv1.HealthCheckResponse
	stateErr error
	// leaf is the service's certificate, nil without TLS.
	leaf *x509.Certificate
	// began and took are when the call began and how long it took.
	began time.Time
	took  time.Duration
}

func (a *asked) service(ctx context.Context) []doctor.Finding {
	client, err := a.settings.Service.Open(userAgent, setpoint.WithRetry(setpoint.Retry{MaxAttempts: 1}))
	if err != nil {
		return doctor.Bad("correct the flag", "%v", err)
	}
	defer func() { _ = client.Close() }()
	var from peer.Peer
	a.began = time.Now()
	answer, err := setpointv1.NewOperationsServiceClient(client.Conn()).GetCaller(ctx, &setpointv1.GetCallerRequest{}, grpc.Peer(&from))
	a.took = time.Since(a.began)
	a.err, a.caller = err, answer.GetCaller()
	a.state, a.stateErr = healthv1.NewHealthClient(client.Conn()).Check(ctx, &healthv1.HealthCheckRequest{})
	if info, ok := from.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
		a.leaf = info.State.PeerCertificates[0]
	}
	if strings.Contains(status.Convert(err).Message(), "this is the port of REST") {
		return doctor.Bad("set --server to the port of gRPC, 9090 by default", "%s: %s", a.settings.Service.Server, status.Convert(err).Message())
	}
	switch status.Code(err) {
	case codes.OK, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return doctor.Good("%s answers after %s", a.settings.Service.Server, a.took.Round(100*time.Microsecond))
	}
	return doctor.Bad(a.remedy(err), "%s does not answer: %s", a.settings.Service.Server, status.Convert(err).Message())
}

// remedy is what to do about a service that does not answer.
func (a *asked) remedy(err error) string {
	text := err.Error()
	for _, known := range []struct{ part, remedy string }{
		{"unknown authority", "--tls-ca-file must have the CA of the service's certificate"},
		{"certificate is valid for", "use one of these names in --server, or set --tls-server-name to it"},
		{"expired", "renew the service's certificate, and compare the clocks of both machines"},
		{"first record does not look like a TLS handshake", "the service talks without TLS: --insecure, or give the service a certificate"},
		{"error reading server preface", "the service may talk TLS only: leave out --insecure, and set --tls-ca-file"},
		{"no such host", a.unresolved},
		{"connection refused", "is the service running there, and is this its gRPC port (9090 by default)?"},
		{"certificate required", "the service asks for a client certificate: --tls-cert-file and --tls-key-file"},
		{"DeadlineExceeded", "nothing answers at the address: " + a.unanswered},
	} {
		if strings.Contains(text, known.part) {
			return known.remedy
		}
	}
	return "check --server, and the service's log"
}

// health tells a service that answers from one that is ready: it needs its store for that, and goes on for a while before a stop.
func (a *asked) health(context.Context) []doctor.Finding {
	switch {
	case a.stateErr != nil:
		return doctor.Notice("", "the service does not say whether it is ready: %s", status.Convert(a.stateErr).Message())
	case a.state.GetStatus() != healthv1.HealthCheckResponse_SERVING:
		return doctor.Bad("look at /readyz of the service's administration port and at its log", "the service answers, but is not ready: its Redis may be out of reach, so that it decides nothing, or it is about to stop")
	}
	return doctor.Good("the service is ready: it reaches its store")
}

func (a *asked) tls(context.Context) []doctor.Finding {
	if a.leaf == nil {
		if a.settings.Service.Insecure {
			return doctor.Good("not used (--insecure)")
		}
		return nil
	}
	left := time.Until(a.leaf.NotAfter)
	text := fmt.Sprintf("the certificate is trusted, of %s, valid until %s", names(a.leaf), a.leaf.NotAfter.UTC().Format(time.RFC3339))
	if left < renewBefore {
		return doctor.Notice("renew the service's certificate", "%s", text)
	}
	return doctor.Good("%s", text)
}

// names are the first names of a certificate.
func names(c *x509.Certificate) string {
	all := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	if len(all) > 4 {
		all = append(all[:4], "…")
	}
	return strings.Join(all, ", ")
}

func (a *asked) token(context.Context) []doctor.Finding {
	switch status.Code(a.err) {
	case codes.Unauthenticated:
		remedy := "the service's tokens file must have the token of --token-file"
		if a.settings.Service.TokenFile == "" {
			remedy = "set --token-file; `setpoint token` makes a token"
		}
		return doctor.Bad(remedy, "the service refuses the caller: %s", status.Convert(a.err).Message())
	case codes.OK:
	default: // an older service
		return doctor.Notice("", "the service does not say who calls: %s", status.Convert(a.err).Message())
	}
	if a.caller.GetName() == "" {
		return doctor.Good("the service does not ask who calls: everybody may do everything")
	}
	text := "the service knows the caller as " + a.caller.GetName()
	if until := a.caller.GetExpireTime(); until != nil {
		text += ", until " + until.AsTime().UTC().Format(time.RFC3339)
	}
	return doctor.Good("%s", text)
}

// needed are the verbs of an agent: it asks, and deletes what it no longer needs.
var needed = []string{"recommend", "delete"}

func (a *asked) cluster(context.Context) []doctor.Finding {
	cluster := a.settings.Cluster
	var elsewhere, namespaces []string
	may := map[string]bool{}
	for _, p := range a.caller.GetPermissions() {
		if !slices.ContainsFunc(p.GetClusters(), func(pattern string) bool { ok, _ := path.Match(pattern, cluster); return ok }) {
			if slices.Contains(p.GetVerbs(), needed[0]) {
				elsewhere = append(elsewhere, p.GetClusters()...)
			}
			continue
		}
		for _, verb := range p.GetVerbs() {
			may[verb] = true
		}
		namespaces = append(namespaces, p.GetNamespaces()...)
	}
	slices.Sort(namespaces)
	where := strings.Join(slices.Compact(namespaces), ", ")
	missing := slices.DeleteFunc(slices.Clone(needed), func(verb string) bool { return may[verb] })
	switch {
	case a.err != nil:
		return nil
	case len(missing) == 0:
		return doctor.Good("the caller may %s in cluster %s, namespaces %s", strings.Join(needed, " and "), cluster, where)
	case a.caller.GetPermissionsTruncated():
		return doctor.Notice("", "the caller has too many grants to see whether it may %s in cluster %s", strings.Join(missing, " and "), cluster)
	case !may[needed[0]] && len(elsewhere) > 0:
		return doctor.Bad("start the agent with the --cluster that the policy names, or grant "+cluster+" in the service's --policy-file",
			"the policy lets the caller recommend for clusters %s, not for %s", strings.Join(elsewhere, ", "), cluster)
	case !may[needed[0]]:
		return doctor.Bad("add a grant to the service's --policy-file", "the policy does not let the caller recommend in cluster %s", cluster)
	}
	return doctor.Notice("grant delete as well: otherwise histories of deleted objects stay until they expire",
		"the caller may recommend in cluster %s, but not delete", cluster)
}

func (a *asked) clock(context.Context) []doctor.Finding {
	told := a.caller.GetCurrentTime()
	if told == nil {
		return doctor.Notice("", "the service does not tell its time")
	}
	// The service read its clock during the call.
	skew := max(a.began.Sub(told.AsTime()), told.AsTime().Sub(a.began.Add(a.took)), 0).Round(time.Millisecond)
	switch {
	case skew > setpoint.MaxClockSkew:
		return doctor.Bad("set both clocks (NTP)", "the service's clock differs by %s: the agent refuses answers above %s", skew, setpoint.MaxClockSkew)
	case skew > maxSkew:
		return doctor.Notice("set both clocks (NTP)", "the service's clock differs by %s", skew)
	}
	return doctor.Good("the service's clock differs by %s at most", max(skew, a.took).Round(time.Millisecond))
}

// refusals asks as the agent would, without readings and as a dry run, so that nothing is recorded.
func (s *Settings) refusals(ctx context.Context, asks []Ask) []doctor.Finding {
	client, err := s.openService()
	if err != nil {
		return doctor.Bad("correct the flag", "%v", err)
	}
	defer func() { _ = client.Close() }()
	var found []doctor.Finding
	for i, one := range asks {
		request := one.Request
		request.Target = "clusters/" + s.Cluster + "/namespaces/" + one.Key.Namespace + "/targets/" + one.Key.Name
		request.Scale, request.DryRun = &setpointv1.Scale{SpecReplicas: 1}, true
		_, err := client.Recommend(ctx, request)
		switch why := agent.Refusal(err); {
		case status.Code(err) == codes.PermissionDenied:
			found = append(found, doctor.Bad("add a grant to the service's --policy-file", "the service does not decide about %s/%s: %s", one.Key.Namespace, one.Key.Name, why)...)
		case why != "":
			found = append(found, doctor.Bad("correct it there, and look again", "the service refuses what %s/%s sets: %s", one.Key.Namespace, one.Key.Name, why)...)
		case err != nil:
			return append(found, doctor.Notice("", "%d of %d objects were not asked about: %s", len(asks)-i, len(asks), status.Convert(err).Message())...)
		}
	}
	if len(found) == 0 && len(asks) > 0 {
		return doctor.Good("the service accepts what %d objects set", len(asks))
	}
	return found
}

// otherAgents looks for agents that the service knows to act on the platform.
func (s *Settings) otherAgents(ctx context.Context, acts func(context.Context) ([]agent.Acting, error)) []doctor.Finding {
	client, err := s.openService()
	if err != nil {
		return doctor.Bad("correct the flag", "%v", err)
	}
	defer func() { _ = client.Close() }()
	acting, err := acts(ctx)
	if err != nil || len(acting) == 0 {
		return nil // the platform's own checks say why
	}
	others, supported, err := agent.Others(ctx, announce(client), s.Cluster, acting)
	switch {
	case !supported:
		return nil
	case err != nil:
		return doctor.Notice("", "the service does not say whether other agents act on this platform: %s", status.Convert(err).Message())
	}
	// The first of this cluster name is the agent itself, which doctor may run beside.
	if own := slices.IndexFunc(others, func(o agent.Other) bool { return o.Cluster == s.Cluster }); own >= 0 && !s.Shadow {
		others = slices.Delete(others, own, own+1)
	}
	if len(others) == 0 {
		return doctor.Good("at most one agent acts on this platform, as far as the service knows")
	}
	var found []doctor.Finding
	for _, other := range others {
		const remedy = "stop one of the agents, or make it a shadow (--shadow)"
		switch {
		case s.Shadow:
			found = append(found, doctor.Good("an agent acts on this platform (%s)", other)...)
		case other.Cluster == s.Cluster:
			found = append(found, doctor.Notice("look again in a minute: an agent that was killed counts until then; else "+remedy, "another agent of this cluster name acts on this platform (%s)", other)...)
		default:
			found = append(found, doctor.Bad(remedy, "another agent acts on this platform (%s)", other)...)
		}
	}
	return found
}
