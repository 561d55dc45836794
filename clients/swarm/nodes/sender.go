package nodes

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/signed"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Sender reports to the agent. It is safe for concurrent use.
type Sender struct {
	url     string
	secrets func() ([][]byte, error)
	client  *http.Client
}

// NewSender returns a sender to the agent at host:port. Its reports are signed with secrets, or
// its certificate authenticates it.
func NewSender(address string, secrets func() ([][]byte, error), own *TLS, timeout time.Duration) (*Sender, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 16 << 10}
	scheme := "http"
	if own != nil {
		scheme = "https"
		dial := files.Dial((&net.Dialer{}).DialContext).TLS(func(string) (*tls.Config, error) { return own.client(host) })
		transport.DialTLSContext = dial.Within(timeout)
	}
	return &Sender{url: scheme + "://" + address + Path, secrets: secrets, client: &http.Client{
		Transport: transport, Timeout: timeout,
		// A report is for the agent only: a redirect could lead it elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close ends its connections.
func (s *Sender) Close() { s.client.CloseIdleConnections() }

// maxAnswer bounds the part of an answer that is read, bytes.
const maxAnswer = 4 << 10

// Send sends a report. The error contains the agent's answer.
func (s *Sender) Send(ctx context.Context, r *Report) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	sent, digest := r.At.UTC().Format(time.RFC3339Nano), signed.Digest(body)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(nodeHeader, r.Node)
	request.Header.Set(timeHeader, sent)
	if s.secrets != nil {
		secrets, err := s.secrets()
		if err != nil {
			return err
		}
		request.Header.Set(digestHeader, digest)
		request.Header.Set(signatureHeader, signature(secrets[0], r.Node, sent, digest))
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the agent answers %s: %s", answer.Status, typed.Shorten(strings.TrimSpace(string(text)), maxQuoted))
	}
	return nil
}
