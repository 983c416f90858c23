// SPDX-License-Identifier: MIT
/* Owns ggml's threads and buffers; see compute.h. */
#include "compute.h"

#include <stdlib.h>
#include <string.h>

#include "report.h"

static void call_part(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
	struct compute *c = userdata;

	(void)dst;
	for (int i = ith; i < c->n; i += nth)
		c->fn(c->arg, i, c->n);
}

static int open_parallel(struct compute *c)
{
	struct ggml_init_params params = {
		.mem_size = 4 * ggml_tensor_overhead() + ggml_graph_overhead_custom(2, false),
		.no_alloc = true,
	};
	struct ggml_tensor *t;

	c->parallel_ctx = ggml_init(params);
	if (!c->parallel_ctx)
		return report_fail("out of memory");
	t = ggml_custom_4d(c->parallel_ctx, GGML_TYPE_F32, 1, 1, 1, 1, NULL, 0, call_part,
			   GGML_N_TASKS_MAX, c);
	t->data = c; /* never touched; ggml wants an address */
	c->parallel_graph = ggml_new_graph_custom(c->parallel_ctx, 2, false);
	ggml_build_forward_expand(c->parallel_graph, t);
	c->parallel_plan = ggml_graph_plan(c->parallel_graph, c->n_threads, c->threads);
	return DONE;
}

int compute_open(struct compute *c, int n_threads)
{
	struct ggml_threadpool_params params = ggml_threadpool_params_default(n_threads);
	int rc;

	memset(c, 0, sizeof(*c));
	c->n_threads = n_threads;
	c->threads = ggml_threadpool_new(&params);
	c->allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
	if (!c->threads || !c->allocator)
		rc = report_fail("out of memory");
	else
		rc = open_parallel(c);
	if (rc)
		compute_close(c);
	return rc;
}

void compute_close(struct compute *c)
{
	ggml_free(c->parallel_ctx);
	ggml_gallocr_free(c->allocator);
	if (c->threads)
		ggml_threadpool_free(c->threads);
	free(c->work);
	memset(c, 0, sizeof(*c));
}

int compute_shrink(struct compute *c)
{
	ggml_gallocr_free(c->allocator);
	free(c->work);
	c->work = NULL;
	c->work_bytes = 0;
	c->allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
	return c->allocator ? DONE : report_fail("out of memory");
}

static int grow_work(struct compute *c, size_t bytes)
{
	if (bytes <= c->work_bytes)
		return DONE;
	free(c->work);
	c->work_bytes = 0;
	c->work = malloc(bytes);
	if (!c->work)
		return report_fail("out of memory: %zu bytes of work buffer", bytes);
	c->work_bytes = bytes;
	return DONE;
}

int compute_reserve(struct compute *c, struct ggml_cgraph *graph)
{
	return ggml_gallocr_reserve(c->allocator, graph) ? DONE
							 : report_fail("out of memory for a graph");
}

int compute_prepare(struct compute *c, struct ggml_cgraph *graph, struct ggml_cplan *plan)
{
	if (!ggml_gallocr_alloc_graph(c->allocator, graph))
		return report_fail("out of memory for a graph");
	*plan = ggml_graph_plan(graph, c->n_threads, c->threads);
	return grow_work(c, plan->work_size);
}

int compute_run(struct compute *c, struct ggml_cgraph *graph, struct ggml_cplan *plan)
{
	plan->work_data = c->work;
	if (ggml_graph_compute(graph, plan) != GGML_STATUS_SUCCESS)
		return report_fail("ggml failed to compute a graph");
	return DONE;
}

size_t compute_bytes(const struct compute *c)
{
	return c->work_bytes + ggml_gallocr_get_buffer_size(c->allocator, 0);
}

void compute_parallel(void *pool, void (*fn)(void *arg, int i, int n), void *arg, int n)
{
	struct compute *c = pool;

	c->fn = fn;
	c->arg = arg;
	c->n = n;
	ggml_graph_compute(c->parallel_graph, &c->parallel_plan);
}
