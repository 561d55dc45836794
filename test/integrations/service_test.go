package integrations

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

const target = "clusters/demo/namespaces/shop/targets/web"

// token is that of the identity token:shop, which may recommend in the namespace shop.
const token = "sp_shop-0123456789abcdefghijklmnopqrstuvw"

// service is the real service, with a clock of its own.
type service struct {
	address string
	nanos   atomic.Int64
	http    *http.Client
	url     string
}

func (s *service) now() time.Time          { return time.Unix(0, s.nanos.Load()).UTC() }
func (s *service) advance(d time.Duration) { s.nanos.Add(int64(d)) }

// start starts a service, which stops with the test.
func start(t testing.TB, changes ...func(*server.Options)) *service {
	t.Helper()
	s := &service{http: &http.Client{Transport: &http.Transport{}, Timeout: 2 * time.Minute}}
	s.nanos.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	options := server.DefaultOptions()
	options.Clock = s.now
	options.Limits.Shedding.Off = true // the machine of a test may be busy
	for _, change := range changes {
		change(&options)
	}
	engine := memory.New(memory.Options{})
	srv, err := server.New(engine, engine, options)
	fatal.If(t, err)
	_, s.address = testserver.Serve(t, srv)
	t.Cleanup(s.http.CloseIdleConnections)
	s.url = "http://" + s.address
	return s
}

// guarded makes a service authenticate callers.
func guarded(t testing.TB) func(*server.Options) {
	t.Helper()
	sum := sha256.Sum256([]byte(token))
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	fatal.If(t, os.WriteFile(file, fmt.Appendf(nil, "tokens:\n  - {identity: shop, sha256: %q}\n", hex.EncodeToString(sum[:])), 0o600))
	authenticator, err := auth.New(auth.Options{TokensFile: file, Certificates: true, Files: files.Options{Interval: -1}})
	fatal.If(t, err)
	t.Cleanup(authenticator.Close)
	grants := `
grants:
  - {identities: ["token:shop", "certificate:cn:wpa"], clusters: [demo], namespaces: [shop], verbs: [recommend, configure]}
`
	p, err := policy.Parse("policy.yaml", []byte(grants))
	fatal.If(t, err)
	return func(o *server.Options) {
		o.Access = &server.Access{Authenticator: authenticator, Policy: files.Fixed(p)}
	}
}

// ask makes a REST call of our own API and returns its body.
func (s *service) ask(t testing.TB, method, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	fatal.If(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := s.http.Do(req)
	fatal.If(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: HTTP %d %s, %v", method, path, resp.StatusCode, text, err)
	}
	return string(text)
}

// setSpec stores a spec that wants a replica for each 10 of the queue, and follows at once.
func (s *service) setSpec(t testing.TB, least, most int) {
	t.Helper()
	s.ask(t, http.MethodPut, "/v1/"+target+"/spec", fmt.Sprintf(`{"period": "10s", "spec": {"minReplicas": %d, "maxReplicas": %d,
		"metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}],
		"behavior": {"scaleUp": {"tolerance": "0", "policies": [{"type": "Pods", "value": 1000000, "periodSeconds": 15}]},
			"scaleDown": {"tolerance": "0", "stabilizationWindowSeconds": 0}}}}`, least, most))
}

// want has the queue be such that so many replicas are wanted.
func (s *service) want(t testing.TB, replicas int) {
	t.Helper()
	s.ask(t, http.MethodPost, "/v1/"+target+":reportObservation", fmt.Sprintf(`{"externalMetrics": [{"metric": {"name": "queue"}, "value": "%d"}]}`, 10*replicas))
}

// poll is the service's recommendation, by its own API.
func (s *service) poll(t testing.TB) *setpointv1.Recommendation {
	t.Helper()
	r := &setpointv1.Recommendation{}
	fatal.If(t, protojson.Unmarshal([]byte(s.ask(t, http.MethodGet, "/v1/"+target+"/recommendation", "")), r))
	return r
}
