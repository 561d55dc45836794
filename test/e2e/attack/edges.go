//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpoint-dev/setpoint/internal/testpki"
)

// narrow shrinks the receive buffer, so that the kernel does not accept unread data.
func narrow(_, _ string, c syscall.RawConn) error {
	var problem error
	err := c.Control(func(fd uintptr) { problem = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
	if err != nil {
		return err
	}
	return problem
}

// inTLS has the service serve TLS.
func inTLS(made **testpki.Authority) func(*site) error {
	return func(s *site) error {
		a := testpki.New("attack")
		own := a.Issue("setpoint", testpki.Usage(x509.ExtKeyUsageServerAuth))
		for name, content := range map[string][]byte{"tls.crt": own.CertPEM(), "tls.key": own.KeyPEM(), "ca.crt": a.CertPEM()} {
			if _, err := s.write(name, content); err != nil {
				return err
			}
		}
		s.authority = s.folder + "/ca.crt"
		s.flags = append(s.flags, "--tls-cert-file="+s.folder+"/tls.crt", "--tls-key-file="+s.folder+"/tls.key")
		*made = a
		return nil
	}
}

// edgeAttacks happen before any request.
func edgeAttacks() []*attack {
	var a *testpki.Authority
	flood := bounds{memory: 256, processor: 10 * time.Second, limit: 10 * time.Second, worst: 5 * time.Second}
	http1 := func(name string, short bool, text func() string) step {
		return step{name: name, short: short, bounds: bounds{memory: 160, processor: 3 * time.Second}, run: func(ctx context.Context, s *scene) error { return spoken(ctx, s, text(), 20) }}
	}
	return []*attack{
		{name: "tls", about: "handshakes as fast as 32 callers can make them, and such as are begun only", prepare: inTLS(&a), steps: []step{
			{name: "handshakes", short: true, bounds: flood, run: func(ctx context.Context, s *scene) error { return handshakes(ctx, s, s.grpc) }},
			{name: "handshakes-rest", bounds: flood, run: func(ctx context.Context, s *scene) error { return handshakes(ctx, s, s.rest) }},
			{name: "begun", bounds: flood, run: connections(3000, onGRPC, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "", 3*time.Second)},
			{name: "in-the-clear", bounds: flood, run: connections(1000, onREST, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "", time.Second)},
		}},
		{name: "http1", about: "requests that no client makes, 20 of each", steps: []step{
			http1("long-path", true, func() string { return "GET /v1/" + strings.Repeat("a", 2<<20) + " HTTP/1.1\r\nHost: a\r\n\r\n" }),
			http1("encoded-path", true, func() string {
				return "GET /v1/clusters/" + strings.Repeat("%25%32%66", 1500) + "/namespaces/%00/targets/..%2f..%2f HTTP/1.1\r\nHost: a\r\n\r\n"
			}),
			http1("long-query", true, func() string {
				return "GET /v1/" + hostileTarget + "?" + strings.Repeat("pageSize=1&", 1400) + " HTTP/1.1\r\nHost: a\r\n\r\n"
			}),
			{name: "large-header", short: true, bounds: bounds{memory: 160, processor: 3 * time.Second}, run: func(ctx context.Context, s *scene) error {
				text := "GET /v1/x HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 64<<10) + "\r\n\r\n"
				err := together(4, func(ctx context.Context, s *scene) error { return spoken(ctx, s, text, 8) })(ctx, s)
				return errors.Join(err, met("431", 20)(s.met))
			}},
			http1("huge-header", true, func() string { return "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 4<<20) + "\r\n\r\n" }),
			http1("many-headers", true, func() string { return "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("A: b\r\n", 500_000) + "\r\n" }),
			http1("pipelined", true, func() string { return strings.Repeat("GET /v1/"+hostileTarget+" HTTP/1.1\r\nHost: a\r\n\r\n", 2000) }),
			http1("smuggled", false, func() string {
				return "POST /v1/" + hostileTarget + ":recommend HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
			}),
			http1("tiny-chunks", true, func() string {
				return "POST /v1/" + hostileTarget + ":recommend HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\n \r\n", 500_000) + "0\r\n\r\n"
			}),
			http1("chunk-extensions", false, func() string {
				return "POST /v1/" + hostileTarget + ":recommend HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 4<<20) + "\r\n{\r\n0\r\n\r\n"
			}),
			http1("trailers", false, func() string {
				return "POST /v1/" + hostileTarget + ":recommend HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + strings.Repeat("X-T: v\r\n", 200_000) + "\r\n"
			}),
			http1("expect", false, func() string {
				return "POST /v1/" + hostileTarget + ":recommend HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 16000000\r\n\r\n"
			}),
			http1("upgrade", false, func() string {
				return "GET /v1/x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
			}),
			http1("methods", false, func() string { return strings.Repeat("Q", 4000) + " / HTTP/1.1\r\nHost: a\r\n\r\n" }),
		}},
	}
}

// spoken sends the same text on several connections, and reads the answers.
func spoken(ctx context.Context, s *scene, text string, times int) error {
	for range times {
		conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", s.rest)
		if err != nil {
			return err
		}
		_ = conn.SetDeadline(time.Now().Add(500 * time.Millisecond))
		go func() { _, _ = io.WriteString(conn, text) }()
		s.met.Add(heard(conn))
		s.sent(1, len(text))
		_ = conn.Close()
	}
	return nil
}

// heard returns the code of the answer.
func heard(conn net.Conn) string {
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "no answer"
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return strconv.Itoa(response.StatusCode)
}

func handshakes(ctx context.Context, s *scene, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var callers sync.WaitGroup
	for range 32 {
		callers.Go(func() {
			for ctx.Err() == nil {
				conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}).DialContext(ctx, "tcp", address)
				if err != nil {
					s.met.Add("refused")
					pause(ctx, 5*time.Millisecond)
					continue
				}
				s.met.Add("handshakes")
				s.sent(1, 500)
				_ = conn.Close()
			}
		})
	}
	callers.Wait()
	return nil
}
