// cert-manager's controllers, and the server of a solver's Pod, for tests. The commands of cert-manager are in modules of their own
// that Go's proxy does not have; this program calls the packages that they call, with their defaults.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"github.com/cert-manager/cert-manager/pkg/apis/certmanager"
	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmechallenges"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmeorders"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/ingresses"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/acme"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme"
	"github.com/cert-manager/cert-manager/pkg/issuer/acme/http/solver"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

// Workers of each controller, as in cert-manager.
const workers = 5

func main() {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "controller":
		err = control(os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "acmesolver":
		err = solve(os.Args[2:])
	default:
		err = errors.New("usage: cert-manager controller|acmesolver FLAGS")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// control runs the controllers until the process is asked to end. One of them runs, so there is no election.
func control(words []string) error {
	flags := flag.NewFlagSet("controller", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "file with the address of the API server and the account")
	own := flags.String("cluster-resource-namespace", "kube-system", "namespace for the Secrets of ClusterIssuers")
	nameserver := flags.String("acme-http01-solver-nameserver", "", "name server for its own check before the authority's")
	if err := flags.Parse(words); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         *kubeconfig,
		KubernetesAPIQPS:   20,
		KubernetesAPIBurst: 50,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: *own},
		ACMEOptions: controller.ACMEOptions{
			HTTP01SolverImage:                 "quay.io/jetstack/cert-manager-acmesolver:v1.20.0",
			HTTP01SolverResourceRequestCPU:    resource.MustParse("10m"),
			HTTP01SolverResourceRequestMemory: resource.MustParse("64Mi"),
			HTTP01SolverResourceLimitsCPU:     resource.MustParse("100m"),
			HTTP01SolverResourceLimitsMemory:  resource.MustParse("64Mi"),
			ACMEHTTP01SolverRunAsNonRoot:      true,
			HTTP01SolverNameservers:           []string{*nameserver},
			DNS01CheckRetryPeriod:             10 * time.Second,
		},
		IngressShimOptions: controller.IngressShimOptions{
			DefaultIssuerKind:                 "Issuer",
			DefaultIssuerGroup:                certmanager.GroupName,
			DefaultAutoCertificateAnnotations: []string{"kubernetes.io/tls-acme"},
		},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: time.Hour,
		},
		SchedulerOptions: controller.SchedulerOptions{MaxConcurrentChallenges: 60},
	})
	if err != nil {
		return err
	}
	ended := make(chan error)
	for name, construct := range controller.Known() {
		made, err := construct(factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		go func() { ended <- made.Run(workers, ctx) }()
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	for range controller.Known() {
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}

// solve answers one challenge.
func solve(words []string) error {
	flags := flag.NewFlagSet("acmesolver", flag.ExitOnError)
	var one solver.HTTP01Solver
	flags.IntVar(&one.ListenPort, "listen-port", 8089, "where it listens")
	flags.StringVar(&one.Domain, "domain", "", "the name that is validated")
	flags.StringVar(&one.Token, "token", "", "the challenge's token")
	flags.StringVar(&one.Key, "key", "", "its answer")
	if err := flags.Parse(words); err != nil {
		return err
	}
	return one.Listen(klog.Background())
}
