package signin_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/server/signin"
	"github.com/setpoint-dev/setpoint/server/signin/signintest"
)

// Strangers start sign-ins and answer them with codes that they made up, while the issuer is slow:
// users sign in nevertheless.
func TestStrangersDoNotKeepUsersFromSigningIn(t *testing.T) {
	t.Parallel()
	const strangers, users = 20, 4
	for _, test := range []struct {
		name string
		// address is where a stranger comes from; users come from 127.0.0.1.
		address func(stranger int) string
		// fresh: each answer has a cookie of its own.
		fresh bool
		// most is how many codes may reach the issuer; 0: any number.
		most int
	}{
		{"with one cookie", func(int) string { return "127.0.0.1" }, false, 1 + users},
		{"with cookies of their own, from the users' address", func(int) string { return "127.0.0.1" }, true, 0},
		{"with cookies of their own, from another address", func(int) string { return "127.0.0.2" }, true, 0},
		{"with cookies of their own, from many addresses", func(i int) string { return fmt.Sprintf("127.0.1.%d", 1+i) }, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS != "linux" && test.address(0) != "127.0.0.1" {
				t.Skip("this system has one loopback address")
			}
			issuer := signintest.Start(t)
			s := withSignIn(t, issuer)
			issuer.Slow(300 * time.Millisecond)
			first := stranger{client: browser(t, s).c, url: s.URL, issuer: issuer.URL}
			first.client.Jar = nil
			first.start(t.Context())
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer stop()
			for i := range strangers {
				one, transport := first, &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(test.address(i))}}).DialContext}
				defer transport.CloseIdleConnections()
				one.client = &http.Client{Transport: transport, CheckRedirect: first.client.CheckRedirect}
				running.Go(func() { one.send(ctx, test.fresh) })
			}
			time.Sleep(400 * time.Millisecond) // they have all places
			for i := range users {
				began := time.Now()
				user := browser(t, s)
				back := user.ask(http.MethodGet, user.toIssuer("/ui/"))
				if back.StatusCode != http.StatusFound {
					t.Errorf("user %d: %s after %v", i, back.Status, time.Since(began))
				}
				user.wantCaller("oidc:corp:alice")
			}
			if n := issuer.Exchanges(); test.most > 0 && n > test.most {
				t.Errorf("%d codes reached the issuer, want %d at most", n, test.most)
			}
		})
	}
}

// stranger is a client that keeps what it was given.
type stranger struct {
	client *http.Client
	url    string
	issuer string
	// state and cookie are those of its last sign-in.
	state, cookie string
}

func (x *stranger) get(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, x.url+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if x.cookie != "" {
		r.Header.Set("Cookie", x.cookie)
	}
	answer, err := x.client.Do(r)
	if err == nil {
		_ = answer.Body.Close()
	}
	return answer, err
}

// start starts a sign-in.
func (x *stranger) start(ctx context.Context) {
	x.cookie = ""
	begun, err := x.get(ctx, signin.StartPath)
	if err != nil {
		return
	}
	if to, err := begun.Location(); err == nil {
		x.state = to.Query().Get("state")
	}
	for _, c := range begun.Cookies() {
		x.cookie = c.Name + "=" + c.Value
	}
}

// send answers sign-ins with codes that nobody gave, until the context ends.
func (x *stranger) send(ctx context.Context, fresh bool) {
	for ctx.Err() == nil {
		if fresh {
			x.start(ctx)
		}
		_, _ = x.get(ctx, signin.CallbackPath+"?code=none&iss="+url.QueryEscape(x.issuer)+"&state="+x.state)
	}
}
