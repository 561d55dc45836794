//go:build linux

package pods

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// slack is how many times as long as in a cluster a probe may take: this machine may be busy.
const slack = 10

// probe sets the pod's readiness until ctx ends, and closes unwell when it should be restarted.
func (p *pod) probe(ctx context.Context, unwell chan struct{}) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	if err := p.report(ctx, corev1.PodRunning, running); err != nil {
		return // the end of ctx
	}
	c := p.container()
	if c.StartupProbe != nil && !p.until(ctx, c.StartupProbe, true) {
		if ctx.Err() == nil {
			close(unwell)
		}
		return
	}
	var both sync.WaitGroup
	defer both.Wait()
	if c.LivenessProbe != nil {
		both.Go(func() {
			if p.until(ctx, c.LivenessProbe, false) {
				close(unwell)
			}
		})
	}
	for is := true; ; is = !is {
		if c.ReadinessProbe != nil && !p.until(ctx, c.ReadinessProbe, is) {
			return
		}
		p.setReady(is)
		if err := p.report(ctx, corev1.PodRunning, running); err != nil || c.ReadinessProbe == nil {
			return
		}
	}
}

// until probes until that succeeds, or fails, often enough in a row, and reports whether it did:
// a wait for success ends with the failures that are one too many, if it is that for the start.
func (p *pod) until(ctx context.Context, probe *corev1.Probe, success bool) bool {
	startup := probe == p.container().StartupProbe
	failures, successes := int32(0), int32(0)
	for first := true; ; first = false {
		wait := time.Duration(probe.PeriodSeconds) * time.Second
		if first {
			wait = time.Duration(probe.InitialDelaySeconds) * time.Second
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
		if err := p.ask(ctx, probe); err == nil {
			failures, successes = 0, successes+1
		} else {
			failures, successes = failures+1, 0
		}
		switch {
		case ctx.Err() != nil:
			return false
		case success && successes >= probe.SuccessThreshold, !success && failures >= probe.FailureThreshold:
			return true
		case startup && failures >= probe.FailureThreshold:
			return false
		}
	}
}

// ask probes once.
func (p *pod) ask(ctx context.Context, probe *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, slack*time.Duration(probe.TimeoutSeconds)*time.Second)
	defer cancel()
	switch {
	case probe.TCPSocket != nil:
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.at(probe.TCPSocket.Port))
		if err != nil {
			return err
		}
		return conn.Close()
	case probe.HTTPGet != nil:
		scheme := "http://"
		if probe.HTTPGet.Scheme == corev1.URISchemeHTTPS {
			scheme = "https://"
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+p.at(probe.HTTPGet.Port)+probe.HTTPGet.Path, nil)
		if err != nil {
			return err
		}
		// The kubelet does not verify certificates either.
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode >= http.StatusBadRequest {
			return fmt.Errorf("%s", response.Status)
		}
		return nil
	default:
		p.node.t.Errorf("pod %s: a probe is of a kind that is not done here", p.object.Name)
		return nil
	}
}

// at is the pod's address with a port by its name or number.
func (p *pod) at(port intstr.IntOrString) string {
	number := port.IntVal
	for _, named := range p.container().Ports {
		if port.Type == intstr.String && named.Name == port.StrVal {
			number = named.ContainerPort
		}
	}
	return net.JoinHostPort(p.address, strconv.Itoa(int(number)))
}
