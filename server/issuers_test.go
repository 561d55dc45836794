package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
)

// hangingIssuer starts a service that takes tokens of a file and JWTs of an issuer that
// takes calls and never answers, with few places for calls. It returns the issuer's URL.
func hangingIssuer(t *testing.T, places int) (s *service, issuer string) {
	t.Helper()
	hang := make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(provider.Close)
	t.Cleanup(func() { close(hang) })
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sum := sha256.Sum256([]byte(adminToken))
	authenticator, err := auth.New(auth.Options{
		TokensFile: write("tokens.yaml", fmt.Sprintf("tokens:\n  - {identity: admin, sha256: %q}\n", hex.EncodeToString(sum[:]))),
		OIDCFile:   write("oidc.yaml", fmt.Sprintf("issuers:\n  - {issuer: %s, audiences: [setpoint]}\n", provider.URL)),
		Files:      files.Options{Interval: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(authenticator.Close)
	s = start(t, func(su *setup) {
		su.options.Access = &server.Access{Authenticator: authenticator, Policy: files.Fixed(policy.Default(false))}
		su.options.Limits.InFlight = places
		su.options.Limits.Shedding.Off = true
	})
	return s, provider.URL
}

// madeUp returns a JWT that claims an issuer, signed by an unknown key.
func madeUp(issuer string, n int) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(fmt.Sprintf(`{"alg":"ES256","kid":"k%d"}`, n)) + "." + part(fmt.Sprintf(`{"iss":%q,"exp":9999999999}`, issuer)) + "." + part(strings.Repeat("s", 64))
}

// honestWait is how long a call may be refused, much shorter than an issuer is waited for.
const honestWait = 2 * time.Second

// While an issuer hangs, callers with keys that it would have to tell of take no place from
// those whose tokens are in a file, over gRPC, streams and REST alike.
func TestCallersOfAnIssuerThatHangsTakeNoPlaces(t *testing.T) {
	t.Parallel()
	const places, flood, honest = 4, 200, 50
	s, issuer := hangingIssuer(t, places)
	var attacking sync.WaitGroup
	defer attacking.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var unavailable, other atomic.Int64
	count := func(err error) {
		if status.Code(err) == codes.Unavailable {
			unavailable.Add(1)
		} else if ctx.Err() == nil && status.Code(err) != codes.ResourceExhausted {
			other.Add(1)
		}
	}
	refused := make(chan struct{}, 3*flood)
	for n := range flood {
		attacking.Go(func() {
			_, err := s.recommendations.Recommend(as(ctx, madeUp(issuer, n)), webRequest(t))
			count(err)
			refused <- struct{}{}
		})
		attacking.Go(func() {
			stream, err := s.recommendations.StreamRecommend(as(ctx, madeUp(issuer, n)))
			if err == nil {
				_, err = stream.Recv()
			}
			count(err)
			refused <- struct{}{}
		})
		attacking.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/"+web, http.NoBody)
			if err != nil {
				return
			}
			req.Header.Set("Authorization", "Bearer "+madeUp(issuer, n))
			if a, err := s.send(req); err == nil && a.code == http.StatusServiceUnavailable {
				unavailable.Add(1)
			}
			refused <- struct{}{}
		})
	}
	for range 2 * flood { // the rest may wait
		<-refused
	}
	// A call of the flood has a place until it is known that it must wait, and on a busy machine some
	// are only now arriving.
	admitted := func(n int, call func() (refused bool, err error)) {
		t.Helper()
		begun := time.Now()
		for {
			refused, err := call()
			if err == nil && !refused {
				return
			}
			if !refused || time.Since(begun) > honestWait {
				t.Fatalf("call %d of a caller whose token is in a file, after %s: refused: %t, %v", n, time.Since(begun), refused, err)
			}
			time.Sleep(time.Millisecond)
		}
	}
	for n := range honest {
		admitted(n, func() (bool, error) {
			_, err := s.recommendations.Recommend(as(ctx, adminToken), webRequest(t))
			return status.Code(err) == codes.ResourceExhausted, err
		})
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/"+web, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+adminToken)
		var a *answer
		admitted(n, func() (bool, error) {
			a, err = s.send(req.Clone(ctx))
			return err == nil && a.code == http.StatusTooManyRequests, err
		})
		a.expect(t, http.StatusOK)
	}
	if unavailable.Load() == 0 || other.Load() > 0 {
		t.Errorf("of the others %d were told UNAVAILABLE, %d something else", unavailable.Load(), other.Load())
	}
}
