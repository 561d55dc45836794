package server_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
)

// tenancy is a service whose tokens and policy can be replaced. The token of a caller is
// "sp_" and its name.
type tenancy struct {
	*service
	tokens, policy string
	authenticator  *auth.Authenticator
	file           *files.Watched[*policy.Policy]
}

func newTenancy(t *testing.T, tokens map[string]string, grants string, changes ...func(*setup)) *tenancy {
	t.Helper()
	dir := t.TempDir()
	y := &tenancy{tokens: filepath.Join(dir, "tokens.yaml"), policy: filepath.Join(dir, "policy.yaml")}
	y.write(t, tokens, grants)
	files := files.Options{Interval: -1, Settle: time.Millisecond}
	var err error
	if y.authenticator, err = auth.New(auth.Options{TokensFile: y.tokens, Files: files}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(y.authenticator.Close)
	if y.file, err = policy.Open(y.policy, files); err != nil {
		t.Fatal(err)
	}
	access := &server.Access{Authenticator: y.authenticator, Policy: y.file}
	y.service = start(t, append([]func(*setup){func(su *setup) { su.options.Access = access }}, changes...)...)
	return y
}

// write writes the files: tokens are identities by token.
func (y *tenancy) write(t *testing.T, tokens map[string]string, grants string) {
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
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// reload puts other files in place.
func (y *tenancy) reload(t *testing.T, tokens map[string]string, grants string) {
	t.Helper()
	y.write(t, tokens, grants)
	if err := y.authenticator.Reload(); err != nil {
		t.Fatal(err)
	}
	if err := y.file.Reload(); err != nil {
		t.Fatal(err)
	}
}

const twoTenants = `
grants:
  - {identities: ["token:admin"], clusters: ["*"], verbs: ["*"]}
  - {identities: ["token:red"], clusters: [red], verbs: [read]}
  - {identities: ["token:blue"], clusters: ["blue-*"], namespaces: [shop], verbs: [read]}
`

var tenants = map[string]string{"sp_admin": "admin", "sp_red": "red", "sp_blue": "blue"}

// fill makes targets.
func (y *tenancy) fill(t *testing.T, targets ...string) {
	t.Helper()
	batch := &setpointv1.BatchRecommendRequest{}
	for _, target := range targets {
		batch.Requests = append(batch.Requests, requestFor(target))
	}
	resp, err := y.recommendations.BatchRecommend(as(t.Context(), "sp_admin"), batch)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range resp.GetResults() {
		if result.GetError() != nil {
			t.Fatal(result.GetError())
		}
	}
}

// page lists targets over gRPC.
func (y *tenancy) page(t *testing.T, token, parent string, size int32, after string) (*setpointv1.ListTargetsResponse, error) {
	t.Helper()
	return y.targets.ListTargets(as(t.Context(), token), &setpointv1.ListTargetsRequest{Parent: parent, PageSize: size, PageToken: after})
}

const everywhere = "clusters/-/namespaces/-"

func TestPagesHoldOnlyWhatTheCallerMayRead(t *testing.T) {
	t.Parallel()
	y := newTenancy(t, tenants, twoTenants)
	want := map[string][]string{}
	var all []string
	for _, cluster := range []string{"amber", "blue-1", "blue-2", "red", "zinc"} {
		for _, namespace := range []string{"payments", "shop"} {
			for i := range 40 {
				target := fmt.Sprintf("clusters/%s/namespaces/%s/targets/secret-%s-%d", cluster, namespace, cluster, i)
				all = append(all, target)
				want["sp_admin"] = append(want["sp_admin"], target)
				if cluster == "red" {
					want["sp_red"] = append(want["sp_red"], target)
				}
				if strings.HasPrefix(cluster, "blue-") && namespace == "shop" {
					want["sp_blue"] = append(want["sp_blue"], target)
				}
			}
		}
	}
	y.fill(t, all...)
	for caller, targets := range want {
		slices.Sort(targets)
		for _, size := range []int32{1, 7, 100, 1000} {
			var got []string
			token, calls := "", 0
			for {
				list, err := y.page(t, caller, everywhere, size, token)
				if err != nil {
					t.Fatal(err)
				}
				for _, target := range list.GetTargets() {
					got = append(got, target.GetName())
				}
				calls++
				if token = list.GetNextPageToken(); token == "" || calls > 500 {
					break
				}
				raw, err := base64.RawURLEncoding.DecodeString(token)
				if err != nil || strings.Contains(string(raw), "secret") || strings.Contains(string(raw), "zinc") {
					t.Fatalf("the token tells names: %q, %v", raw, err)
				}
			}
			if !slices.Equal(got, targets) {
				t.Errorf("%s in pages of %d: got %d targets, want %d", caller, size, len(got), len(targets))
			}
			// Pages are filled with targets that the caller may read.
			if most := len(targets)/int(size) + 2; calls > most {
				t.Errorf("%s in pages of %d: %d pages, want %d at most", caller, size, calls, most)
			}
		}
	}
}

func TestPageTokensServeOnlyWhoGotThem(t *testing.T) {
	t.Parallel()
	y := newTenancy(t, tenants, twoTenants)
	var targets []string
	for _, cluster := range []string{"blue-1", "red"} {
		for i := range 4 {
			targets = append(targets, fmt.Sprintf("clusters/%s/namespaces/shop/targets/t%d", cluster, i))
		}
	}
	y.fill(t, targets...)
	first, err := y.page(t, "sp_red", everywhere, 2, "")
	if err != nil || first.GetNextPageToken() == "" {
		t.Fatalf("%v, %v", first, err)
	}
	token := first.GetNextPageToken()
	refused := func(what string, err error) {
		t.Helper()
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v, want INVALID_ARGUMENT", what, err)
			return
		}
		wantViolations(t, err, "pageToken")
	}
	_, err = y.page(t, "sp_blue", everywhere, 2, token)
	refused("another caller", err)
	_, err = y.page(t, "sp_admin", everywhere, 2, token)
	refused("one who may read it all", err)
	_, err = y.page(t, "sp_red", "clusters/red/namespaces/-", 2, token)
	refused("another parent", err)
	_, err = y.targets.ListDecisions(as(t.Context(), "sp_red"), &setpointv1.ListDecisionsRequest{Parent: targets[4], PageToken: token})
	refused("another list", err)
	forged := base64.RawURLEncoding.EncodeToString([]byte("red/shop/t1"))
	_, err = y.page(t, "sp_red", everywhere, 2, forged)
	refused("a position in the clear", err)
	_, err = y.targets.ListDecisions(as(t.Context(), "sp_red"), &setpointv1.ListDecisionsRequest{Parent: targets[4], PageToken: "1"})
	refused("a position of a log in the clear", err)
	body := y.ask(t, http.MethodGet, "/v1/"+everywhere+"/targets?pageToken="+url.QueryEscape(token), nil)
	if body.code != http.StatusUnauthorized {
		t.Errorf("without credentials: %d", body.code)
	}
	y.reload(t, tenants, strings.ReplaceAll(twoTenants, `["blue-*"]`, `["blue-1"]`))
	if second, err := y.page(t, "sp_red", everywhere, 2, token); err != nil || len(second.GetTargets()) != 2 {
		t.Errorf("after a change for others: %v, %v", second, err)
	}
	y.reload(t, tenants, strings.ReplaceAll(twoTenants, "clusters: [red]", "clusters: [red, green]"))
	_, err = y.page(t, "sp_red", everywhere, 2, token)
	refused("with other grants", err)
}

// What lies between a caller's targets costs steps, not keys, and no more than so many.
func TestAPageOfOneAmongManyIsBounded(t *testing.T) {
	t.Parallel()
	y := newTenancy(t, tenants, `
grants:
  - {identities: ["token:admin"], clusters: ["*"], verbs: ["*"]}
  - {identities: ["token:red"], clusters: ["*-red"], verbs: [read]}
`)
	targets := []string{"clusters/zzz-red/namespaces/shop/targets/mine"}
	for i := range 200 {
		targets = append(targets, fmt.Sprintf("clusters/c%03d/namespaces/shop/targets/web", i))
	}
	y.fill(t, targets...)
	token, found := "", 0
	for calls := 1; ; calls++ {
		list, err := y.page(t, "sp_red", everywhere, 100, token)
		if err != nil {
			t.Fatal(err)
		}
		found += len(list.GetTargets())
		if token = list.GetNextPageToken(); token == "" {
			if calls < 2 {
				t.Error("one call went through all clusters")
			}
			break
		}
		if calls > 20 {
			t.Fatal("the pages do not end")
		}
	}
	if found != 1 {
		t.Errorf("found %d", found)
	}
}

// ask sends a message on a stream and returns what became of it.
func askStream(t *testing.T, stream setpointv1.RecommendationService_StreamRecommendClient, target string) codes.Code {
	t.Helper()
	if err := stream.Send(&setpointv1.StreamRecommendRequest{Id: "1", Request: requestFor(target)}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return codes.Code(answer.GetError().GetCode())
}

func openStream(t *testing.T, s *service, token string) setpointv1.RecommendationService_StreamRecommendClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(as(t.Context(), token), 5*time.Minute)
	t.Cleanup(cancel)
	stream, err := s.recommendations.StreamRecommend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

const redRecommends = `
grants:
  - {identities: ["token:red"], clusters: [red], verbs: [recommend]}
  - {identities: ["token:blue"], clusters: [blue], verbs: [recommend]}
`

// A reload takes effect with the next message, on open streams, too.
func TestReloadsReachOpenStreams(t *testing.T) {
	t.Parallel()
	const red, blue = "clusters/red/namespaces/shop/targets/web", "clusters/blue/namespaces/shop/targets/web"
	tokens := map[string]string{"sp_t": "red"}
	y := newTenancy(t, tokens, redRecommends)
	stream := openStream(t, y.service, "sp_t")
	expect := func(when string, ofRed, ofBlue codes.Code) {
		t.Helper()
		for target, want := range map[string]codes.Code{red: ofRed, blue: ofBlue} {
			if got := askStream(t, stream, target); got != want {
				t.Errorf("%s: %s got %s, want %s", when, target, got, want)
			}
		}
	}
	expect("at first", codes.OK, codes.PermissionDenied)
	y.reload(t, tokens, strings.ReplaceAll(redRecommends, "clusters: [red]", "clusters: [none]"))
	expect("with its grant gone", codes.PermissionDenied, codes.PermissionDenied)
	y.reload(t, tokens, redRecommends)
	expect("with its grant back", codes.OK, codes.PermissionDenied)
	y.reload(t, map[string]string{"sp_t": "blue"}, redRecommends)
	expect("the token is another's now", codes.PermissionDenied, codes.OK)
	y.reload(t, map[string]string{"sp_other": "red"}, redRecommends)
	expect("the token is revoked", codes.Unauthenticated, codes.Unauthenticated)
	y.reload(t, tokens, redRecommends)
	expect("the token is back", codes.OK, codes.PermissionDenied)
	y.write(t, map[string]string{"sp_other": "red"}, redRecommends)
	if err := y.authenticator.Reload(); err != nil {
		t.Fatal(err)
	}
	expect("the token is revoked, and the policy is as it was", codes.Unauthenticated, codes.Unauthenticated)
}

func TestDryRunOnlyCallersChangeNothing(t *testing.T) {
	t.Parallel()
	const target = "clusters/red/namespaces/shop/targets/web"
	y := newTenancy(t, map[string]string{"sp_admin": "admin", "sp_red": "red"}, `
grants:
  - {identities: ["token:*"], clusters: ["*"], verbs: ["*"]}
options:
  - {identities: ["token:red"], clusters: [red], dryRunOnly: true}
`)
	decided, err := y.recommendations.Recommend(as(t.Context(), "sp_admin"), requestFor(target))
	if err != nil {
		t.Fatal(err)
	}
	report := &setpointv1.ReportScaleRequest{Target: target, RecommendationId: decided.GetRecommendationId(), Outcome: "FAILED"}
	before := y.stored(t, target)
	for what, call := range map[string]func() error{
		"ReportScale": func() error {
			_, err := y.recommendations.ReportScale(as(t.Context(), "sp_red"), report)
			return err
		},
		"DeleteTarget": func() error {
			_, err := y.targets.DeleteTarget(as(t.Context(), "sp_red"), &setpointv1.DeleteTargetRequest{Name: target})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "dry runs only") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !slices.Equal(y.stored(t, target), before) {
		t.Error("the record was changed")
	}
	if _, err := y.recommendations.ReportScale(as(t.Context(), "sp_admin"), report); err != nil {
		t.Errorf("by who may: %v", err)
	}
	const other = "clusters/blue/namespaces/shop/targets/web"
	if decided, err = y.recommendations.Recommend(as(t.Context(), "sp_red"), requestFor(other)); err != nil {
		t.Fatal(err)
	}
	if _, err := y.recommendations.ReportScale(as(t.Context(), "sp_red"), &setpointv1.ReportScaleRequest{Target: other, RecommendationId: decided.GetRecommendationId(), Outcome: "FAILED"}); err != nil {
		t.Errorf("where it may: %v", err)
	}
}

// Answers are remembered by request id. One that was made under other options is no answer
// for a caller whose options the operator has set.
func TestAnswersOfOthersAreNoWayAroundOptions(t *testing.T) {
	t.Parallel()
	y := newTenancy(t, map[string]string{"sp_free": "free", "sp_capped": "capped"}, `
grants:
  - {identities: ["token:*"], clusters: ["*"], verbs: ["*"]}
options:
  - {identities: ["token:capped"], caps: {maxReplicas: 6}}
`)
	ask := func(token string) *setpointv1.RecommendResponse {
		req := requestFor(shopTarget)
		req.RequestId = "the-same"
		resp, err := y.recommendations.Recommend(as(t.Context(), token), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	free, capped := ask("sp_free"), ask("sp_capped")
	if free.GetDesiredReplicas() != 8 || capped.GetDesiredReplicas() > 6 {
		t.Errorf("free %d, capped %d, want 8 and 6 at most", free.GetDesiredReplicas(), capped.GetDesiredReplicas())
	}
	again := ask("sp_capped")
	if again.GetRecommendationId() != capped.GetRecommendationId() {
		t.Error("its own retry is decided again")
	}
	if got := again.GetRequestId(); got != "the-same" {
		t.Errorf("its retry is told to be the answer to %q", got)
	}
	if again = ask("sp_free"); again.GetRecommendationId() != free.GetRecommendationId() {
		t.Error("the other's retry is decided again")
	}
}

// DeleteTarget needs its own verb, and needs it there.
func TestDeletingNeedsItsVerbForThatTarget(t *testing.T) {
	t.Parallel()
	y := newTenancy(t, map[string]string{"sp_admin": "admin", "sp_t": "t"}, `
grants:
  - {identities: ["token:admin"], clusters: ["*"], verbs: ["*"]}
  - {identities: ["token:t"], clusters: [red], verbs: [recommend, read, simulate]}
  - {identities: ["token:t"], clusters: [blue], verbs: [delete]}
`)
	const red, blue = "clusters/red/namespaces/shop/targets/web", "clusters/blue/namespaces/shop/targets/web"
	y.fill(t, red, blue)
	for target, want := range map[string]codes.Code{red: codes.PermissionDenied, blue: codes.OK} {
		_, err := y.targets.DeleteTarget(as(t.Context(), "sp_t"), &setpointv1.DeleteTargetRequest{Name: target})
		if status.Code(err) != want {
			t.Errorf("%s: got %v, want %s", target, err, want)
		}
	}
	if y.stored(t, red) == nil || y.stored(t, blue) != nil {
		t.Error("the wrong one was deleted")
	}
	y.reload(t, map[string]string{"sp_t": "t"}, `{grants: [{identities: ["token:t"], clusters: [red], verbs: [recommend, read, simulate]}]}`)
	if _, err := y.targets.DeleteTarget(as(t.Context(), "sp_t"), &setpointv1.DeleteTargetRequest{Name: red}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("with every other verb: %v", err)
	}
}

// Each call requires exactly its verb: a caller with only that one may make it, one
// with all others may not.
func TestEachCallNeedsItsVerbAndNoOther(t *testing.T) {
	t.Parallel()
	y := newTenancy(t, map[string]string{
		"sp_recommend": "recommend", "sp_read": "read", "sp_delete": "delete", "sp_simulate": "simulate",
		"sp_norecommend": "norecommend", "sp_noread": "noread", "sp_nodelete": "nodelete", "sp_nosimulate": "nosimulate",
	}, `
grants:
  - {identities: ["token:recommend"], clusters: ["*"], verbs: [recommend]}
  - {identities: ["token:read"], clusters: ["*"], verbs: [read]}
  - {identities: ["token:delete"], clusters: ["*"], verbs: [delete]}
  - {identities: ["token:simulate"], clusters: ["*"], verbs: [simulate]}
  - {identities: ["token:norecommend"], clusters: ["*"], verbs: [read, delete, simulate]}
  - {identities: ["token:noread"], clusters: ["*"], verbs: [recommend, delete, simulate]}
  - {identities: ["token:nodelete"], clusters: ["*"], verbs: [recommend, read, simulate]}
  - {identities: ["token:nosimulate"], clusters: ["*"], verbs: [recommend, read, delete]}
`)
	const web = "clusters/red/namespaces/shop/targets/web"
	for name, c := range map[string]struct {
		verb string
		call func(context.Context) error
	}{
		"Recommend": {"recommend", func(ctx context.Context) error {
			_, err := y.recommendations.Recommend(ctx, queue(web, 3, 30))
			return err
		}},
		"BatchRecommend": {"recommend", func(ctx context.Context) error {
			_, err := y.recommendations.BatchRecommend(ctx, &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{queue(web, 3, 30)}})
			return err
		}},
		"StreamRecommend": {"recommend", func(ctx context.Context) error {
			stream, err := y.recommendations.StreamRecommend(ctx)
			if err != nil {
				return err
			}
			if err := stream.CloseSend(); err != nil {
				return err
			}
			if _, err = stream.Recv(); errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}},
		"ReportScale": {"recommend", func(ctx context.Context) error {
			_, err := y.recommendations.ReportScale(ctx, &setpointv1.ReportScaleRequest{Target: web, RecommendationId: strings.Repeat("0", 32), Outcome: "APPLIED"})
			return err
		}},
		"GetTarget": {"read", func(ctx context.Context) error {
			_, err := y.targets.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: web})
			return err
		}},
		"ListTargets": {"read", func(ctx context.Context) error {
			_, err := y.targets.ListTargets(ctx, &setpointv1.ListTargetsRequest{Parent: "clusters/red/namespaces/shop"})
			return err
		}},
		"ListDecisions": {"read", func(ctx context.Context) error {
			_, err := y.targets.ListDecisions(ctx, &setpointv1.ListDecisionsRequest{Parent: web})
			return err
		}},
		"DeleteTarget": {"delete", func(ctx context.Context) error {
			_, err := y.targets.DeleteTarget(ctx, &setpointv1.DeleteTargetRequest{Name: web})
			return err
		}},
		"Simulate": {"simulate", func(ctx context.Context) error {
			stream, err := y.simulations.Simulate(ctx, &setpointv1.SimulateRequest{})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		}},
	} {
		if err := c.call(as(t.Context(), "sp_"+c.verb)); status.Code(err) == codes.PermissionDenied {
			t.Errorf("%s with its verb alone: %v", name, err)
		}
		if err := c.call(as(t.Context(), "sp_no"+c.verb)); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s with every other verb: %v", name, err)
		}
	}
}

// issuer is one of JWTs, on this machine.
func issuerOf(t *testing.T, claims map[string]any) (issuer, token string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	at := httptest.NewServer(mux)
	t.Cleanup(at.Close)
	answer := func(path string, v any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) })
	}
	answer("/.well-known/openid-configuration", map[string]any{"issuer": at.URL, "jwks_uri": at.URL + "/keys"})
	answer("/keys", jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Use: "sig"}}})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	claims["iss"], claims["aud"], claims["exp"] = at.URL, "setpoint", time.Now().Add(time.Hour).Unix()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	if token, err = signed.CompactSerialize(); err != nil {
		t.Fatal(err)
	}
	return at.URL, token
}

// Identities do not travel in headers, which hold less than an issuer may say.
func TestCallersOfManyGroupsMayUseREST(t *testing.T) {
	t.Parallel()
	groups := make([]string, 300)
	for i := range groups {
		groups[i] = fmt.Sprintf("a-department-with-a-long-name-%04d", i)
	}
	issuer, token := issuerOf(t, map[string]any{"sub": "alice", "groups": groups})
	file := filepath.Join(t.TempDir(), "oidc.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "issuers: [{issuer: %q, audiences: [setpoint], groupsClaim: groups, prefix: 'a-corporation-with-a-long-name:'}]", issuer), 0o600); err != nil {
		t.Fatal(err)
	}
	authenticator, err := auth.New(auth.Options{OIDCFile: file, Files: files.Options{Interval: -1, Settle: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(authenticator.Close)
	p, err := policy.Parse("policy.yaml", []byte(`{grants: [{groups: ["*-0299"], clusters: [demo], verbs: [recommend, read]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, func(su *setup) {
		su.options.Access = &server.Access{Authenticator: authenticator, Policy: files.Fixed(p)}
	})
	if _, err := s.recommendations.Recommend(as(t.Context(), token), requestFor(shopTarget)); err != nil {
		t.Errorf("gRPC: %v", err)
	}
	body := requestFor(shopTarget)
	body.Target = ""
	for name, tt := range map[string]struct {
		method, path string
		body         any
	}{
		"the fast path":    {http.MethodPost, "/v1/" + shopTarget + ":recommend", body},
		"over the gateway": {http.MethodPost, "/v1/" + shopTarget + ":recommend?", body},
		"a read":           {http.MethodGet, "/v1/" + shopTarget, nil},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, s.url+tt.path, reader(t, tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		if name == "over the gateway" {
			req.Header.Set("Grpc-Timeout", "5S")
		}
		a, err := s.send(req)
		if err != nil {
			t.Fatal(err)
		}
		if a.code != http.StatusOK {
			t.Errorf("%s: %d %s", name, a.code, a.raw)
		}
	}
}

// A header that REST accepts must not be too long for gRPC.
func TestLongHeadersOverREST(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.recommend(t, requestFor(shopTarget))
	for _, header := range []string{"User-Agent", "Tracestate", "X-Forwarded-For", "X-Forwarded-Host", "Traceparent", "Authorization"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/"+shopTarget, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header, strings.Repeat("x", 17<<10))
		a, err := s.send(req)
		if err != nil {
			t.Fatal(err)
		}
		if a.code >= 500 && a.code != http.StatusServiceUnavailable {
			t.Errorf("%s of 17 KiB: %d %s", header, a.code, a.raw)
		}
	}
}
