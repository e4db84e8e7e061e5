#include "server/config/help_text.h"

namespace latentd::server::config {
namespace {

constexpr char kHelp[] =
    R"(latentd serves pictures from Stable Diffusion checkpoints (XL, 1 and 2), and videos from Stable Video Diffusion, over gRPC.

  latentd                                     the demo checkpoint, on 127.0.0.1:50051
  latentd --base=FILE.safetensors             a checkpoint in one file
  latentd --base=DIR                          a diffusers checkpoint directory
  latentd --base=PATH --refiner=PATH          base and refiner

Then, in another terminal:  latent generate "a large yellow star on a purple background"

What to serve
  --base=PATH             the base: one .safetensors file with the whole checkpoint, which is recognised by its tensors, or
                          a diffusers directory, with model_index.json in it; or ORG/NAME[@REVISION], which
                          `hf download` has brought
  --refiner=PATH          the refiner: the same
  --vae=PATH              a VAE in the place of the base's own: a .safetensors file, a folder with config.json, or a whole
                          checkpoint, whose VAE it takes
  --unet=PATH             the same of the UNet, which has to be of the base's family
  --vae-tiny=PATH         the same of a tiny VAE, which draws previews: TAESD, or TAESDXL for SDXL
  --text-encoder=PATH     the same of the text encoder (CLIP-L; OpenCLIP H in Stable Diffusion 2)
  --text-encoder-2=PATH   the same of SDXL's second one (OpenCLIP bigG)
  --components-from=PATH  another checkpoint of the family: supplies what a file lacks (text encoders, VAE, vocabulary),
                          and where a file says nothing, its configuration counts for components of the same shapes
  --refiner-components-from=PATH
                          the same for the refiner
  --lora=FILE[:WEIGHT]    a LoRA that is merged into the base's weights, such as film.safetensors:0.8; once for each.
                          Of two weights, film.safetensors:0.8:0.5, the second is for the text encoders (default: 1;
                          they may be negative, and above 1). docs/adapters.md says what can be read
  --adapters=DIR          a folder of LoRAs, which requests name (latent generate --adapter film:0.8), and of textual
                          inversions, whose words prompts may have. What is added, edited or removed is noticed; what is
                          broken is not served, and `latent adapters` says why (default: none)
  --adapter-slots=N       images with up to N different sets of LoRAs of --adapters share steps, each with its own, where
                          the LoRAs change linears alone; graphs of steps are made twice for that (default: 0, every
                          set is merged into weights)
  --adapter-ranks=N       ranks that such a set may have, a multiple of 8; one with more is merged (default: 32)
  --model=NAME=PATH       a further model, which requests name; once for each. Behind the path may stand ,KEY=VALUE: vae,
                          unet, vae-tiny, text-encoder, text-encoder-2, components-from, preset, scheduler,
                          prediction-type and ema, as these flags; lora, as --lora, once for each; buckets, with
                          + between sizes; and residency: on_demand (default: loaded for its first request, while others
                          draw, and evicted where others need its memory), ready (from the start on) or pinned (stays).
                          Its precision is the base's. Without --base the first of these is drawn with by default
  --video=PATH            a model of Stable Video Diffusion, a diffusers directory or its single file, which draws videos
                          of images (latent animate); beside the others or alone. Behind the path may stand ,buckets=,
                          of width, height and frames with + between them, such as 1024x576x25 (default: 1024x576 and
                          576x1024, of the frames that it was trained on), ,decode-chunk=, frames that are decoded
                          together where requests do not say (default: all), and ,components-from=, a directory with what
                          a file lacks. docs/video.md
  --variant=NAME          of directories: fp16 reads *.fp16.safetensors; without it: files without a suffix, else fp16
  --scheduler=NAME        the noise scheduler of requests that name none, such as euler, over the settings of the
                          checkpoint's (default: the checkpoint's own, where it is one that latentd has)
  --preset=NAME           how the base is meant to be drawn with, where nothing in its files tells: turbo, lightning-4,
                          hyper-8, lcm, dmd2, pony, noobai-v, ... (docs/models.md has them all): scheduler, spacing,
                          steps and guidance of requests that set none. A wrong name lists those that there are
  --prediction-type=TYPE  what the base's UNet predicts, whatever its files or the preset say: epsilon, v_prediction or
                          sample. latent capabilities shows what decided it
  --ema=BOOL              takes the EMA weights that old training dumps have beside the UNet's own, in one file
  --backend=NAME          cpu (default); cuda: an NVIDIA GPU (experimental); or reference: slow, in plain fp32, to
                          compare with
  --devices=LIST          of --backend=cuda, the GPUs by their number, such as 0,1 (default: the first). They have to be equal;
                          each has its own weights, graphs and queue, and a request goes to the one that will be free first
  --split=WHEN            of several --devices, whether two share the steps of one picture with guidance, a row each, so
                          that it is drawn sooner: never (default), auto (while one has nothing else to do, and that
                          makes steps shorter) or always. Its bytes may differ a little by that
  --placement=HOW         of several --devices, which of the ready and pinned models each has from the start on: all
                          (default), or as many as its --memory has room for (budget): each model is on one device
                          first, then on more while there is room; requests go where their model is
  --components=LIST       how components run that are not compiled: vae_encoder=off,text_encoder=reference. Of
                          text_encoder, text_encoder_2, unet_base, unet_refiner, vae_decoder, vae_encoder, vae_tiny,
                          image_encoder (of --video), each is compiled, reference (op by op, slow) or off (what needs it is refused; without
                          vae_tiny, which a checkpoint may have in a folder of that name, previews are in colours)
  --precision=LIST        what the networks compute in: fp32, bf16, fp16, or with cuda tf32 (fp32 whose products may round
                          what they multiply; not beside fp32), fp8 (bf16 in which most linear layers of the UNets
                          multiply 8-bit floats: faster, other details) or fp8_all (their convolutions too, which is
                          for Hopper; not beside fp8), for all of them or by component, such as
                          bf16,vae_decoder=fp32; what is not named, in the default (cuda: bf16; others: fp32). A VAE whose
                          config.json does not say "force_upcast": false runs its parts that overflow in fp16 in fp32; a
                          picture that still is not finite is decoded again in fp32

Which sizes
  --buckets=LIST          sizes that pictures are drawn at, such as 1024x1024,832x1216 (default: those that the model
                          was trained at). Graphs are compiled for each of them; other sizes run in one of these, or
                          are refused, as the request's bucket_policy says
  --rows=LIST             rows of one evaluation that graphs are compiled for, up to 16 (default 1,2,4; cuda: 1,2,4,8,16;
                          reference: 1,2). A picture has one, or two with guidance; pictures of one size share steps
                          where there are more, which are made ready once the server serves
  --max-shared-pixels=N   of an evaluation of more than 2 rows: a size has those of --rows whose rows x width x height are
                          N at most (default 8388608: 8 rows of 1024x1024, 16 of 512x512, 2 of 1536x1536; 0: 2 at most)
  --prompt-chunks=N       prompts of up to N chunks of 75 tokens are ready to be drawn, where requests ask for
                          long_prompt CHUNK, 1 to 4 (default 1)
  --feature-cache=BOOL    requests with feature_cache_interval, which compute less of the UNet in some steps, are drawn:
                          each step has two graphs more (default false)
  --prompt-blends=BOOL    prompts with weights below 1 in Compel's syntax are ready to be drawn, by text encoders with a
                          mask (default false)
  --vae-tiling-above=SIZE pictures of more pixels, such as 1536x1536 has, go through the VAE in overlapping tiles of its
                          sample_size, as diffusers' enable_vae_tiling does: less memory, other pictures (default: none)

Compiled graphs
  --cache-dir=DIR         where they are kept for the next start (default $XDG_CACHE_HOME/latentd, else
                          ~/.cache/latentd); --cache-dir= keeps none
  --cache-max-bytes=SIZE  of that directory; what was not used for longest leaves first (default 10GiB)
  --graph-memory=SIZE     of graphs held in memory (default 1GiB)
  --compile-at-start=BOOL compile what the cache does not have before the server is ready (default true); else it stays
                          cold until somebody asks for it: latent graphs warm
  --allow-cold-requests=BOOL
                          let requests with bucket_policy COLD_OK compile for any size (default false)
  --forbid-compile-after-ready=BOOL
                          refuse whatever would compile once the server is ready (default false)
  --skip-passes=LIST      compiler passes to leave out, by name, to find out what one does
  --allow-import=BOOL     take compiled graphs of other servers: latent graphs import (default false)

Where
  --listen=ADDRESS        HOST:PORT, [IPV6]:PORT or unix:PATH (default 127.0.0.1:50051); port 0 picks a free one and logs it
  --admin-listen=ADDRESS  the same for the services of operators, GraphCache and Admin; HOST:PORT only with
                          --admin-tls-client-ca. Default: --listen if that is a Unix socket, else one that only this user
                          may use, $XDG_RUNTIME_DIR/latentd/PORT.sock or /tmp/latentd-UID/PORT.sock, PORT being --listen's
  --metrics-listen=ADDRESS
                          HOST:PORT over HTTP: /metrics for Prometheus, /healthz and /readyz for probes (default: nowhere); IPv4
  --health-listen=ADDRESS HOST:PORT for probes: grpc.health.v1 alone, always in plain text (default: nowhere)
  --http-listen=ADDRESS   HOST:PORT over HTTP: pictures by OpenAI's Images API, AUTOMATIC1111's and Hugging Face's (default:
                          nowhere). Speaks TLS and asks for certificates as --listen does; docs/http.md has its paths
  --http-cors-origins=LIST
                          pages of these origins may ask there: https://app.example.org,http://localhost:3000; * is any (default:
                          none but its own)
  --http-defaults=FIELDS  fields that requests there have where they do not set them: 'num_inference_steps: 4 guidance_scale: 0'
                          (names and values of GenerateRequest in the API, but for what is each request's own, as its prompt)
  --http-page=BOOL        serve the page for people there, at / (default: true at an address of this machine alone, else false)

Who may call (PEM files but the last, read again when they change)
  --tls-cert=FILE         speak TLS at --listen and --admin-listen, with this certificate; those that lead to its
                          authority belong behind it in the same file
  --tls-key=FILE          its key
  --tls-client-ca=FILE    ask clients for a certificate that one of these has signed
  --admin-tls-client-ca=FILE
                          the same at --admin-listen=HOST:PORT, of operators
  --api-key-file=FILE     ask callers at --listen and --http-listen for a key: a line of the file is NAME KEY, of 16 characters
                          or more, or sha256: and its digest; with the word operator behind it, it shows memory and
                          graphs over HTTP, too. They show it as Authorization: Bearer KEY

How much
  --threads=N             for computing on a CPU; at most, and by default, as many as this process may use CPUs
  --memory=SIZE           budget, such as 8GiB (default: what machine and cgroup leave; with --backend=cuda each GPU)
  --picture-memory=SIZE   of the host: for init images and latents of requests, which may have a half of it, and for
                          finished pictures until they are read (default 512MiB, or an eighth of what the host has)
  --queue-capacity=N      pictures that may wait before requests are refused (default 64); of each of --devices
  --max-queue-time=TIME   refuse a request that would wait longer than this before it begins (default: it may)
  --max-priority=N        that a request may ask for, 0 to 3 (default 0); each more counts as double
  --caller-max-priority=LIST
                          the same of single callers, instead: renderer.example.org=2,batch.example.org=0. A caller's name is
                          what its certificate says (--tls-client-ca): one of the subject alternative names, or, where there
                          are none, the common name; of several that are listed the highest counts. Without a certificate it
                          is the host: ipv4:192.0.2.7, ipv6:20010db800000000 for the network 2001:db8::/64, or unix
  --max-request-bytes=N   of one request, its picture included (default 32MiB)
  --max-connections=N     of all clients; more are closed as they come (default 4096). Each needs an open file (ulimit -n)
  --max-connection-age=TIME
                          of a client's connection, give or take a tenth: its next call then connects anew, and may reach
                          another replica (default 30m; 0: no limit)
  --max-connection-age-grace=TIME
                          for calls that still run on one that is older; then they are cancelled (default 0: no limit)
  --stall-timeout=TIME    cancel a client that takes nothing of its answer for this long (default 60s)

Operation
  --drain-timeout=TIME    how long SIGTERM (SIGINT, SIGHUP) lets running requests finish (default 30s); a second one ends at once
  --log-format=FORMAT     text (default) or json, on standard error
  --log-level=LEVEL       debug, info (default), warning, error
  --otlp-endpoint=URL     HOST:PORT, http://HOST:PORT (plain text, both) or https://HOST:PORT of a collector that takes OTLP
                          over gRPC: a span for each request and what was done for it (default: nowhere)
  --config=FILE           the same settings from a file, in protobuf's text format; flags win
  --exit-when-ready       exit with 0 once every graph is ready and in the cache (row counts above 2: if they can be), and
                          with 1 if that cannot be: fills a cache that other servers only load from (2: there is no cache)
  --exit-if-degraded      exit with 1 if a bucket is not ready after the start, instead of serving the others
  --print-config          print what flags, file and defaults come to, as such a file, and exit
  --version               print the version and exit
  --help                  print this and exit

A switch (BOOL) is --name, --noname or --name=false. A flag is given once: a second, different value is an error.
Exit codes: 0 stopped by a signal (--exit-when-ready: ready), 1 could not start or failed, 2 wrong flags or configuration,
3 a unit of work did not end with the drain, 4 the device has failed and the server is to be started again,
143, 130 and 129 ended at once by SIGTERM, SIGINT and SIGHUP: a second one, or one before the server listens.
)";

}  // namespace

std::string HelpText() { return kHelp; }

}  // namespace latentd::server::config
