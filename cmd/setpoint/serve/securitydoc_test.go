package serve

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/flight"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
)

// heredoc returns the file that a page's example writes.
func heredoc(t *testing.T, page, name string) string {
	t.Helper()
	_, after, found := strings.Cut(page, "cat > "+name+" <<EOF\n")
	text, _, ended := strings.Cut(after, "    EOF\n")
	if !found || !ended {
		t.Fatalf("the page shows no %s", name)
	}
	return strings.ReplaceAll("\n"+text, "\n    ", "\n")
}

// startGuarded serves with these files and returns a client of the token's caller.
func startGuarded(t *testing.T, tokens, policy, token string) *setpoint.Client {
	t.Helper()
	files := edgeSettings{Auth: auth.Options{TokensFile: clitest.File(t, "tokens.yaml", tokens)}, PolicyFile: clitest.File(t, "policy.yaml", policy)}
	guard, err := files.open(zap.NewNop(), 0)
	fatal.If(t, err)
	t.Cleanup(guard.close)
	options := server.DefaultOptions()
	options.Access = guard.access
	client, err := setpoint.New(clitest.StartServerWith(t, options), setpoint.WithInsecure(),
		setpoint.WithToken(token), setpoint.WithTokenOverInsecure(), setpoint.WithRetry(setpoint.Retry{MaxAttempts: 1}))
	fatal.If(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// agentCalls makes every call of an agent, in the order of an object's life, and returns the
// errors by name. The names are those of the agent's methods.
func agentCalls(t *testing.T, client *setpoint.Client, cluster, namespace string) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	target := "clusters/" + cluster + "/namespaces/" + namespace + "/targets/web"
	question := func() *setpointv1.RecommendRequest {
		return &setpointv1.RecommendRequest{
			Target: target,
			Spec:   &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 5},
			Scale:  &setpointv1.Scale{SpecReplicas: 7, StatusReplicas: new(int32)},
		}
	}
	var calls agent.Recommender = client
	stream := client.Stream(1)
	defer stream.Close()
	var streamed agent.Stream = stream
	var recorded flight.Targets = client
	errs := map[string]error{}
	answer, err := calls.Recommend(ctx, question())
	errs["Recommender.Recommend"] = err
	_, errs["Stream.Recommend"] = streamed.Recommend(ctx, question())
	_, errs["Recommender.ReportScale"] = calls.ReportScale(ctx, &setpointv1.ReportScaleRequest{
		Target: target, RecommendationId: cmp.Or(answer.GetRecommendationId(), strings.Repeat("0", 32)), Outcome: "APPLIED",
	})
	_, errs["Targets.GetTarget"] = recorded.GetTarget(ctx, target)
	errs["Recommender.DeleteIncarnation"] = calls.DeleteIncarnation(ctx, &setpointv1.DeleteTargetRequest{Name: target})
	var called []string
	for _, has := range []reflect.Type{reflect.TypeFor[agent.Recommender](), reflect.TypeFor[agent.Stream](), reflect.TypeFor[flight.Targets]()} {
		for i := range has.NumMethod() {
			called = append(called, has.Name()+"."+has.Method(i).Name)
		}
	}
	for _, name := range called {
		if _, ok := errs[name]; !ok {
			t.Errorf("the agent may call %s, which the test does not", name)
		}
	}
	return errs
}

// refusedCalls are the calls that the policy does not allow.
func refusedCalls(t *testing.T, errs map[string]error) []string {
	t.Helper()
	var refused []string
	for name, err := range errs {
		switch status.Code(err) {
		case codes.OK, codes.NotFound, codes.FailedPrecondition:
		case codes.PermissionDenied:
			refused = append(refused, name)
		default:
			t.Errorf("%s: %v", name, err)
		}
	}
	slices.Sort(refused)
	return refused
}

// tokenOfPage makes a token as the page does, and returns it and the file of tokens.
func tokenOfPage(t *testing.T, page string) (token, tokens string) {
	t.Helper()
	for _, command := range []string{"\n    setpoint token agent-shop >token.txt 2>entry.yaml ", "\n    (echo tokens:; cat entry.yaml) >tokens.yaml\n"} {
		if !strings.Contains(page, command) {
			t.Fatalf("the page lacks the command %q", strings.TrimSpace(command))
		}
	}
	token, entry, err := auth.GenerateToken("agent-shop") // as the command does
	fatal.If(t, err)
	return token, "tokens:\n" + entry.YAML()
}

// The policies that are shown and deployed let an agent work: all that it calls is allowed,
// where they say so and nowhere else.
func TestThePoliciesShownLetAnAgentWork(t *testing.T) {
	t.Parallel()
	page := testpages.Read(t, "../../../docs/operate/security.md")
	deployed := testpages.Read(t, "../../../deploy/kustomize/service/policy.yaml")
	_, policy, found := strings.Cut(page, "## The policy\n\n```yaml\n")
	policy, _, _ = strings.Cut(policy, "```")
	if !found {
		t.Fatal("the page shows no policy")
	}
	token, tokens := tokenOfPage(t, page)
	quick := heredoc(t, page, "policy.yaml")
	// Only --record and status with names need these, as the page says.
	reading := []string{"Targets.GetTarget"}
	for _, tt := range []struct {
		rule, policy, cluster, namespace string
		refused                          []string
	}{
		{"in five minutes", quick, "prod-eu", "shop", nil},
		{"the policy", policy, "prod-eu", "shop", nil},
		{"deployed", strings.ReplaceAll(deployed, "agent-default", "agent-shop"), "default", "shop", nil},
		{"without read it may not record", strings.Replace(quick, ", read]", "]", 1), "prod-eu", "shop", reading},
		{"without delete it is refused", strings.Replace(quick, ", delete", "", 1), "prod-eu", "shop", []string{"Recommender.DeleteIncarnation"}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			client := startGuarded(t, tokens, tt.policy, token)
			if refused := refusedCalls(t, agentCalls(t, client, tt.cluster, tt.namespace)); !slices.Equal(refused, tt.refused) {
				t.Errorf("refused: %q, want %q, by\n%s", refused, tt.refused, tt.policy)
			}
			if refused := refusedCalls(t, agentCalls(t, client, "other", tt.namespace)); len(refused) != 5 {
				t.Errorf("in another cluster only these are refused: %q", refused)
			}
		})
	}
}

// The last command of the page accepts the files made on the page.
func TestTheFilesOfFiveMinutesAreTaken(t *testing.T) {
	t.Parallel()
	page := testpages.Read(t, "../../../docs/operate/security.md")
	_, tokens := tokenOfPage(t, page)
	folder := t.TempDir()
	clitest.Certificate(t, folder, time.Now().Add(time.Hour))
	for name, text := range map[string]string{"tokens.yaml": tokens, "policy.yaml": heredoc(t, page, "policy.yaml")} {
		fatal.If(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	_, command, found := strings.Cut(page, "\n    setpoint serve --auth-tokens-file tokens.yaml ")
	command, _, _ = strings.Cut("serve --auth-tokens-file tokens.yaml "+command, "\n")
	if !found {
		t.Fatal("the page ends with another command")
	}
	args := strings.Fields(command)
	for i, arg := range args {
		if i > 0 && !strings.HasPrefix(arg, "-") {
			args[i] = filepath.Join(folder, arg)
		}
	}
	if got := run(t, "", append(args, "--check")...); got.Code != 0 {
		t.Errorf("%q: %s", args, got.Stderr)
	}
}
