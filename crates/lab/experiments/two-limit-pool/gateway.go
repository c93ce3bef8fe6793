// The gateway of the report: a reverse proxy over one http.Transport, whose two limits of idle connections are flags.
// Standard library only. Errors are answered 502 and counted, since what a client sees does not tell their cause.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"
)

// What happened so far.
type counters struct {
	requests        atomic.Int64
	opened          atomic.Int64
	cannotAssign    atomic.Int64
	failedOtherwise atomic.Int64
}

// As Prometheus reads it.
func (c *counters) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "# TYPE gateway_requests_total counter\ngateway_requests_total %d\n", c.requests.Load())
	fmt.Fprintf(w, "# TYPE gateway_connections_opened_total counter\ngateway_connections_opened_total %d\n", c.opened.Load())
	fmt.Fprintf(w, "# TYPE gateway_cannot_assign_address_total counter\ngateway_cannot_assign_address_total %d\n", c.cannotAssign.Load())
	fmt.Fprintf(w, "# TYPE gateway_failed_otherwise_total counter\ngateway_failed_otherwise_total %d\n", c.failedOtherwise.Load())
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	tells := flag.String("tells", "127.0.0.1:8088", "address where the counters are told")
	to := flag.String("to", "http://127.0.0.1:8081", "the origin")
	idle := flag.Int("idle", 100, "MaxIdleConns: idle connections altogether; 100 is that of http.DefaultTransport")
	idlePerHost := flag.Int("idle-per-host", 2, "MaxIdleConnsPerHost: idle connections to each host; 2 is the default")
	flag.Parse()

	origin, err := url.Parse(*to)
	if err != nil {
		log.Fatal(err)
	}
	var count counters
	dialer := net.Dialer{Timeout: 10 * time.Second}
	transport := &http.Transport{
		MaxIdleConns:        *idle,
		MaxIdleConnsPerHost: *idlePerHost,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				count.opened.Add(1)
			}
			return conn, err
		},
	}
	proxy := httputil.NewSingleHostReverseProxy(origin)
	proxy.Transport = transport
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		// The client has gone: there is no reader left, and nothing of ours failed.
		if errors.Is(err, context.Canceled) {
			return
		}
		// "connect: cannot assign requested address": no local port is left towards the origin.
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			count.cannotAssign.Add(1)
		} else {
			count.failedOtherwise.Add(1)
		}
		w.WriteHeader(http.StatusBadGateway)
	}
	go func() { log.Fatal(http.ListenAndServe(*tells, &count)) }()
	log.Fatal(http.ListenAndServe(*listen, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.requests.Add(1)
		proxy.ServeHTTP(w, r)
	})))
}
