package servertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
)

// Tokens of the tests, by owner.
const (
	ScalerToken  = "sp_scaler-of-shop-0123456789abcdefghijk"
	ReaderToken  = "sp_reader-0123456789abcdefghijklmnopqrs"
	NobodyToken  = "sp_nobody-0123456789abcdefghijklmnopqrs"
	AdminToken   = "sp_admin-0123456789abcdefghijklmnopqrst"
	CappedToken  = "sp_capped-0123456789abcdefghijklmnopqrs"
	UnknownToken = "sp_unknown-0123456789abcdefghijklmnopqr"
)

// TestPolicy is the policy of Guarded, with a grant for each of the tokens.
const TestPolicy = `
grants:
  - {identities: ["token:scaler"], clusters: [demo], namespaces: [shop], verbs: [recommend]}
  - {identities: ["token:reader"], clusters: [demo], verbs: [read]}
  - {identities: ["token:admin", "token:capped"], clusters: ["*"], verbs: ["*"]}
options:
  - identities: ["token:capped"]
    targets: [frozen]
    dryRunOnly: true
  - identities: ["token:capped"]
    defaults: {tolerance: 0.5}
    caps: {maxReplicas: 6, minReplicas: 2}
`

// Guarded starts a service with authentication.
func Guarded(t *testing.T, changes ...func(*Setup)) *Service {
	t.Helper()
	return NewTenancy(t, map[string]string{
		ScalerToken: "scaler", ReaderToken: "reader", NobodyToken: "nobody", AdminToken: "admin", CappedToken: "capped",
	}, TestPolicy, changes...).Service
}

// As gives a call the credentials of a token; "" gives it none.
func As(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// RequestFor is a request for a target that TestPolicy knows; it wants 8 replicas, or 9.
func RequestFor(target string) *setpointv1.RecommendRequest {
	return &setpointv1.RecommendRequest{
		Target: target,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MaxReplicas: 10,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("1")},
			}}},
		},
		Scale:           &setpointv1.Scale{SpecReplicas: 4},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "9"}},
	}
}

// ShopTarget is where the scaler may recommend; OtherTarget is in another cluster.
const (
	ShopTarget  = "clusters/demo/namespaces/shop/targets/web"
	OtherTarget = "clusters/prod/namespaces/shop/targets/web"
)

// Tenancy is a service whose tokens and policy can be replaced.
type Tenancy struct {
	*Service
	tokens, policy string
	Authenticator  *auth.Authenticator
	file           *files.Watched[*policy.Policy]
}

// NewTenancy starts a service with those tokens, each of an identity, and that policy.
func NewTenancy(t *testing.T, tokens map[string]string, grants string, changes ...func(*Setup)) *Tenancy {
	t.Helper()
	dir := t.TempDir()
	y := &Tenancy{tokens: filepath.Join(dir, "tokens.yaml"), policy: filepath.Join(dir, "policy.yaml")}
	y.Write(t, tokens, grants)
	files := files.Options{Interval: -1, Settle: time.Millisecond}
	var err error
	y.Authenticator, err = auth.New(auth.Options{TokensFile: y.tokens, Files: files})
	fatal.If(t, err)
	t.Cleanup(y.Authenticator.Close)
	y.file, err = policy.Open(y.policy, files)
	fatal.If(t, err)
	access := &server.Access{Authenticator: y.Authenticator, Policy: y.file}
	y.Service = Start(t, append([]func(*Setup){func(su *Setup) { su.Options.Access = access }}, changes...)...)
	return y
}

// Write writes the files, and has nobody read them. Tokens are identities by token.
func (y *Tenancy) Write(t *testing.T, tokens map[string]string, grants string) {
	t.Helper()
	text := "tokens:\n"
	for token, identity := range tokens {
		sum := sha256.Sum256([]byte(token))
		text += fmt.Sprintf("  - {identity: %s, sha256: %q}\n", identity, hex.EncodeToString(sum[:]))
	}
	if len(tokens) == 0 {
		text = "tokens: []\n"
	}
	for path, text := range map[string]string{y.tokens: text, y.policy: grants} {
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// Reload puts other files in place.
func (y *Tenancy) Reload(t *testing.T, tokens map[string]string, grants string) {
	t.Helper()
	y.Write(t, tokens, grants)
	fatal.If(t, y.Authenticator.Reload())
	fatal.If(t, y.file.Reload())
}

// TwoTenants is a policy of two tenants who read, and of one who may do everything.
const TwoTenants = `
grants:
  - {identities: ["token:admin"], clusters: ["*"], verbs: ["*"]}
  - {identities: ["token:red"], clusters: [red], verbs: [read]}
  - {identities: ["token:blue"], clusters: ["blue-*"], namespaces: [shop], verbs: [read]}
`

// Tenants are the tokens of TwoTenants.
var Tenants = map[string]string{"sp_admin": "admin", "sp_red": "red", "sp_blue": "blue"}

// Fill makes targets, with the token sp_admin.
func (y *Tenancy) Fill(t *testing.T, targets ...string) {
	t.Helper()
	batch := &setpointv1.BatchRecommendRequest{}
	for _, target := range targets {
		batch.Requests = append(batch.Requests, RequestFor(target))
	}
	resp, err := y.Recommendations.BatchRecommend(As(t.Context(), "sp_admin"), batch)
	fatal.If(t, err)
	for _, result := range resp.GetResults() {
		if result.GetError() != nil {
			t.Fatal(result.GetError())
		}
	}
}
