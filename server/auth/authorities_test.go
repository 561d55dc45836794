package auth_test

import (
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/server/auth"
)

// An issuer's CAs follow their file, and errors in it are reported.
func TestCAFilesAreWatched(t *testing.T) {
	k := newKey(t, "1", jose.ES256)
	i := newIssuer(t, k)
	right := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	ca := write(t, "ca.pem", string(right))
	file := write(t, "oidc.yaml", fmt.Sprintf("issuers: [{issuer: %q, audiences: [setpoint], prefix: \"\", caFile: %q}]", i.URL, ca))
	var mu sync.Mutex
	var events []files.Event
	a := start(t, auth.Options{OIDCFile: file, Files: files.Options{Interval: time.Millisecond, Settle: time.Millisecond, OnChange: func(e files.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}}})
	wantName(t, a, bearer(k.sign(t, i.claims())), "oidc:alice")
	until := func(what string, done func() bool) {
		t.Helper()
		ctx, cancel := contextUntil(t, 2*time.Minute)
		defer cancel()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !done() {
			select {
			case <-ctx.Done():
				t.Fatal("in vain: ", what)
			case <-tick.C:
			}
		}
	}
	// Keys are fetched again at once, not within minutes.
	before := i.discoveries.Load()
	other := newIssuer(t, k)
	rewrite(t, ca, string(right)+string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw})))
	until("the keys are fetched with the new CAs", func() bool { return i.discoveries.Load() > before })
	told := func(err bool) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.ContainsFunc(events, func(e files.Event) bool { return e.Paths[0] == ca && (e.Err != nil) == err })
		}
	}
	until("the change is told of", told(false))
	fatal.If(t, os.WriteFile(ca, []byte("nothing"), 0o600))
	until("a file with no certificate is told of", told(true))
	wantName(t, a, bearer(k.sign(t, i.claims("jti", "2"))), "oidc:alice")
	// Whoever knows the endpoints for minutes trusts the CAs of now nevertheless.
	endpoints, err := a.Endpoints(t.Context(), i.URL)
	fatal.If(t, err)
	rewrite(t, ca, string(testpki.New("another").CertPEM()))
	until("the CAs have changed for sign-ins, too", func() bool {
		client, err := endpoints.Client()
		fatal.If(t, err)
		answer, err := client.Get(i.URL)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err != nil
	})
}

// Whoever knows the endpoints of an issuer trusts the CAs of its entry now, also if that names another file since.
func TestEndpointsOfAnEntryThatChanges(t *testing.T) {
	k := newKey(t, "1", jose.ES256)
	i := newIssuer(t, k)
	entry := fmt.Sprintf("issuers: [{issuer: %q, audiences: [setpoint], caFile: ", i.URL)
	file := write(t, "oidc.yaml", entry+fmt.Sprintf("%q}]", i.caFile(t)))
	a := start(t, auth.Options{OIDCFile: file, Files: files.Options{Interval: -1}})
	endpoints, err := a.Endpoints(t.Context(), i.URL)
	fatal.If(t, err)
	get := func() error {
		client, err := endpoints.Client()
		if err != nil {
			return err
		}
		answer, err := client.Get(i.URL)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	fatal.If(t, get())
	for what, changed := range map[string]string{
		"another CA":     entry + fmt.Sprintf("%q}]", write(t, "other.pem", string(testpki.New("another").CertPEM()))),
		"another issuer": "issuers:\n" + newIssuer(t, k).entry(t),
	} {
		rewrite(t, file, changed)
		fatal.If(t, a.Reload())
		if get() == nil {
			t.Errorf("%s: what is no longer trusted is", what)
		}
	}
}
