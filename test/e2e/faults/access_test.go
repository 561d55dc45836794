package faults

import (
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// The password of the service, and the user of those that are not everybody.
const (
	password = "first"
	user     = "app"
)

func TestRefusedAccessIsRefusedAndRecoversAlone(t *testing.T) {
	t.Parallel()
	asUser := func(su *setup) { su.redis.Username, su.redis.Password = user, password }
	limited := directives("user " + user + " on >" + password + " ~* &* +@all")
	for _, f := range []fault{
		{
			name: "the password is another, and connections are closed", clean: true,
			config: &redistest.Config{Password: password},
			begin: func(t *testing.T, r *rig) func() {
				r.do(t, "CONFIG", "SET", "requirepass", "second")
				r.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				return func() { r.do(t, "CONFIG", "SET", "requirepass", password) }
			},
		},
		{
			name: "there is a password now, and connections are closed", clean: true, config: directives(),
			begin: func(t *testing.T, r *rig) func() {
				r.do(t, "CONFIG", "SET", "requirepass", "second")
				r.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				return func() { r.do(t, "CONFIG", "SET", "requirepass", "") }
			},
		},
		{name: "the user is gone", clean: true, config: limited, change: asUser, begin: rights([]any{"off"}, []any{"on"})},
		{name: "the user has no rights", clean: true, config: limited, change: asUser, begin: rights([]any{"-@all"}, []any{"+@all"})},
		{name: "the user has no right to the keys", clean: true, config: limited, change: asUser, begin: rights([]any{"resetkeys", "~other:*"}, []any{"~*"})},
		{name: "the user may only read", clean: true, reads: true, config: limited, change: asUser, begin: rights([]any{"-@write"}, []any{"+@all"})},
		{
			name: "the user may not write within scripts", clean: true, reads: true, config: limited, change: asUser,
			begin: rights([]any{"-set", "-del"}, []any{"+@all"}),
		},
	} {
		t.Run(f.name, f.run)
	}
}

// rights starts a fault in the permissions of the service's user.
func rights(bad, good []any) func(*testing.T, *rig) func() {
	return func(t *testing.T, r *rig) func() {
		r.do(t, append([]any{"ACL", "SETUSER", user}, bad...)...)
		if bad[0] == "off" { // which leaves existing connections alone
			r.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
		return func() { r.do(t, append([]any{"ACL", "SETUSER", user}, good...)...) }
	}
}

// A service that may not run scripts can read and ping, but records nothing.
func TestAUserWithoutScriptsIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, *directives("user " + user + " on >" + password + " ~* &* +@all"))
	s := r.start(t, func(su *setup) { su.redis.Username, su.redis.Password = user, password })
	c := newCase(t, r, s)
	end := rights([]any{"-eval", "-evalsha"}, []any{"+@all"})(t, r)
	f := fault{reads: true, noScripts: true}
	f.refusesAll(t, c)
	end()
	f.recovers(t, c)
	c.nothingRecorded(t)
	c.everythingOnce(t)
}

func TestAUserWithoutScriptsIsNotReady(t *testing.T) {
	t.Parallel()
	r := newRig(t, *directives("user " + user + " on >" + password + " ~* &* +@all -eval -evalsha"))
	s := startService(t, r.url(), r.prefix, func(su *setup) { su.redis.Username, su.redis.Password = user, password })
	b := newBook()
	refused(t, unavailable, s.recommend(t.Context(), b, b.request(probe)))
	kit.Eventually(t, notice, "checked once more", func() error {
		if s.store.Stats().RoundTrips < 6 {
			return errors.New("not yet")
		}
		return nil
	})
	if err := s.readiness(t, false); err != nil {
		t.Error(err)
	}
}

func TestAPasswordThatChangesLeavesOpenConnectionsAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.Config{Password: password})
	// A connection that is given up because the machine stands still can't be replaced.
	c := newCase(t, r, r.start(t, generous))
	r.do(t, "CONFIG", "SET", "requirepass", "second")
	must(t, c.recommend(t.Context(), c.book, c.book.request(c.known[0])))
	c.awaitReady(t)
}

func TestAServiceThatStartsWithTheWrongPasswordWaitsForTheRightOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.Config{Password: password})
	const another = "hunter2"
	s := startService(t, strings.Replace(r.url(), password, another, 1), r.prefix)
	b := newBook()
	refused(t, unavailable, s.recommend(t.Context(), b, b.request(probe)))
	must(t, s.readiness(t, false))
	s.awaitLogged(t, "WRONGPASS")
	if s.logged(another) {
		t.Errorf("the log tells the password: %v", s.logs.All())
	}
	r.do(t, "CONFIG", "SET", "requirepass", another)
	took := kit.Eventually(t, notice, "calls succeed", func() error { return s.recommend(t.Context(), b, b.request(probe)) })
	t.Logf("calls succeed after %v, ready after %v", brief(took), brief(took+s.awaitReady(t)))
	b.retryAll(t, s)
	b.check(t, r)
}

// Problems of certificates are in the log.
func TestAConnectionWithoutTrustIsRefusedAndLogged(t *testing.T) {
	t.Parallel()
	files, others := redistest.NewTLS(t), redistest.NewTLS(t)
	r := newRig(t, redistest.Config{TLS: files})
	b := newBook()
	for _, tt := range []struct {
		name   string
		change func(*setup)
		log    string
	}{
		{"in the clear", func(su *setup) { su.redis.TLS = nil }, ""},
		{"an unknown authority", func(su *setup) { su.redis.TLS.RootCAs = others.Config().RootCAs }, "certificate signed by unknown authority"},
		{"the system's authorities", func(su *setup) { su.redis.TLS.RootCAs = x509.NewCertPool() }, "certificate signed by unknown authority"},
		{"no certificate of the client", func(su *setup) { su.redis.TLS.Certificates = nil }, "certificate required"},
		{"another authority's certificate of the client", func(su *setup) { su.redis.TLS.Certificates = others.Config().Certificates }, "unknown certificate authority"},
		{"another name", func(su *setup) { su.redis.TLS.ServerName = "redis.example.com" }, "redis.example.com"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := startService(t, r.url(), r.prefix, generous, func(su *setup) {
				su.redis.TLS = files.Config()
				su.redis.BreakerFailures = math.MaxInt32 // otherwise the breaker may hide it
			}, tt.change)
			// On a busy machine a handshake may time out before it fails for the expected
			// reason.
			took := kit.Eventually(t, notice, "refused, and logged why", func() error {
				if problem := refusal(s.recommend(t.Context(), b, b.request(target("tls"))), unavailable); problem != nil {
					return problem
				}
				if !s.logged(tt.log) {
					return fmt.Errorf("the log does not tell of %q: %v", tt.log, s.logs.All())
				}
				return nil
			})
			t.Logf("refused after %v", brief(took))
			must(t, s.readiness(t, false))
		})
	}
	t.Run("with the right ones", func(t *testing.T) {
		t.Parallel()
		s := startService(t, r.url(), r.prefix, func(su *setup) { su.redis.TLS = files.Config() })
		s.awaitReady(t)
		must(t, s.recommend(t.Context(), b, b.request(probe)))
	})
}
