/* The functions of NVIDIA's driver that the CUDA target calls, as a library `libcuda.so.1`: each has the prototype that NVIDIA's
   header declares, or this does not compile, and hands its arguments on to whoever plays the GPU (library.py).

   Words: numbers as they are, pointers as addresses, what a structure holds one member after the other. */
#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t word;
typedef CUresult (*Player)(const char *name, const word *given, word *results);

static Player player;

__attribute__((visibility("default"))) void qd_played_by(Player function) { player = function; }

#define ADDRESS(pointer) ((word)(uintptr_t)(pointer))
#define HANDLE(type, number) ((type)(uintptr_t)(number))
#define ASK(name, ...) ask(name, (const word[]){__VA_ARGS__}, results)
#define ANSWER(name, ...) ask(name, (const word[]){__VA_ARGS__}, NULL)

static CUresult ask(const char *name, const word *given, word *results) {
    return player == NULL ? CUDA_ERROR_STUB_LIBRARY : player(name, given, results);
}

CUresult CUDAAPI cuInit(unsigned int flags) { return ANSWER("cuInit", flags); }

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text) {
    word results[1];
    CUresult code = ASK("cuGetErrorString", (word)error);
    if (code == CUDA_SUCCESS) *text = (const char *)(uintptr_t)results[0];
    return code;
}

CUresult CUDAAPI cuDriverGetVersion(int *version) {
    word results[1];
    CUresult code = ASK("cuDriverGetVersion", 0);
    if (code == CUDA_SUCCESS) *version = (int)results[0];
    return code;
}

/* The device, its context. */

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
    word results[1];
    CUresult code = ASK("cuDeviceGet", (word)ordinal);
    if (code == CUDA_SUCCESS) *device = (CUdevice)results[0];
    return code;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    word results[1];
    CUresult code = ASK("cuDeviceGetAttribute", (word)attribute, (word)device);
    if (code == CUDA_SUCCESS) *value = (int)results[0];
    return code;
}

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice device) {
    word results[1];
    CUresult code = ASK("cuDeviceTotalMem", (word)device);
    if (code == CUDA_SUCCESS) *bytes = results[0];
    return code;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    word results[1];
    CUresult code = ASK("cuDevicePrimaryCtxRetain", (word)device);
    if (code == CUDA_SUCCESS) *context = HANDLE(CUcontext, results[0]);
    return code;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) { return ANSWER("cuCtxSetCurrent", ADDRESS(context)); }

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) { return ANSWER("cuCtxPushCurrent", ADDRESS(context)); }

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *context) {
    word results[1];
    CUresult code = ASK("cuCtxPopCurrent", 0);
    if (code == CUDA_SUCCESS && context != NULL) *context = HANDLE(CUcontext, results[0]);
    return code;
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) { return ANSWER("cuCtxSetLimit", (word)limit, value); }

CUresult CUDAAPI cuCtxSynchronize(void) { return ANSWER("cuCtxSynchronize", 0); }

/* Memory. */

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *address, size_t size) {
    word results[1];
    CUresult code = ASK("cuMemAlloc", size);
    if (code == CUDA_SUCCESS) *address = results[0];
    return code;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr address) { return ANSWER("cuMemFree", address); }

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size) {
    return ANSWER("cuMemcpyHtoD", to, ADDRESS(from), size);
}

CUresult CUDAAPI cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size) {
    return ANSWER("cuMemcpyDtoH", ADDRESS(to), from, size);
}

/* Modules and launches. */

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values) {
    word results[1];
    CUresult code = ASK("cuModuleLoadDataEx", ADDRESS(image), count, ADDRESS(options), ADDRESS(values));
    if (code == CUDA_SUCCESS) *module = HANDLE(CUmodule, results[0]);
    return code;
}
_Static_assert(sizeof(CUjit_option) == 4 && sizeof(void *) == 8, "how options of the assembler are read");

CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    word results[1];
    CUresult code = ASK("cuModuleGetFunction", ADDRESS(module), ADDRESS(name));
    if (code == CUDA_SUCCESS) *function = HANDLE(CUfunction, results[0]);
    return code;
}

CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    word results[2];
    CUresult code = ASK("cuModuleGetGlobal", ADDRESS(module), ADDRESS(name));
    if (code != CUDA_SUCCESS) return code;
    if (address != NULL) *address = results[0];
    if (bytes != NULL) *bytes = results[1];
    return code;
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    return ANSWER("cuFuncSetAttribute", ADDRESS(function), (word)attribute, (word)value);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                                unsigned int bz, unsigned int shared, CUstream stream, void **parameters, void **extra) {
    return ANSWER("cuLaunchKernel", ADDRESS(f), gx, gy, gz, bx, by, bz, shared, ADDRESS(stream), ADDRESS(parameters), ADDRESS(extra));
}

/* Streams and events. */

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags) {
    word results[1];
    CUresult code = ASK("cuStreamCreate", flags);
    if (code == CUDA_SUCCESS) *stream = HANDLE(CUstream, results[0]);
    return code;
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream) { return ANSWER("cuStreamDestroy", ADDRESS(stream)); }

CUresult CUDAAPI cuStreamSynchronize(CUstream stream) { return ANSWER("cuStreamSynchronize", ADDRESS(stream)); }

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
    return ANSWER("cuStreamWaitEvent", ADDRESS(stream), ADDRESS(event), flags);
}

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags) {
    word results[1];
    CUresult code = ASK("cuEventCreate", flags);
    if (code == CUDA_SUCCESS) *event = HANDLE(CUevent, results[0]);
    return code;
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) { return ANSWER("cuEventRecord", ADDRESS(event), ADDRESS(stream)); }

CUresult CUDAAPI cuEventSynchronize(CUevent event) { return ANSWER("cuEventSynchronize", ADDRESS(event)); }

CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent first, CUevent then) {
    word results[1];
    double told;
    CUresult code = ASK("cuEventElapsedTime", ADDRESS(first), ADDRESS(then));
    memcpy(&told, results, sizeof told);
    if (code == CUDA_SUCCESS) *milliseconds = (float)told;
    return code;
}

CUresult CUDAAPI cuEventDestroy(CUevent event) { return ANSWER("cuEventDestroy", ADDRESS(event)); }

/* Graphs. */

CUresult CUDAAPI cuGraphCreate(CUgraph *graph, unsigned int flags) {
    word results[1];
    CUresult code = ASK("cuGraphCreate", flags);
    if (code == CUDA_SUCCESS) *graph = HANDLE(CUgraph, results[0]);
    return code;
}

#define NODE(p) ADDRESS((p)->func), (p)->gridDimX, (p)->gridDimY, (p)->gridDimZ, (p)->blockDimX, (p)->blockDimY, (p)->blockDimZ, \
                (p)->sharedMemBytes, ADDRESS((p)->kernelParams), ADDRESS((p)->extra), ADDRESS((p)->kern), ADDRESS((p)->ctx)

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                      const CUDA_KERNEL_NODE_PARAMS *parameters) {
    word results[1];
    CUresult code = ASK("cuGraphAddKernelNode", ADDRESS(graph), ADDRESS(before), count, NODE(parameters));
    if (code == CUDA_SUCCESS) *node = HANDLE(CUgraphNode, results[0]);
    return code;
}

CUresult CUDAAPI cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext context,
                                                unsigned int initial, unsigned int flags) {
    word results[1];
    CUresult code = ASK("cuGraphConditionalHandleCreate", ADDRESS(graph), ADDRESS(context), initial, flags);
    if (code == CUDA_SUCCESS) *handle = results[0];
    return code;
}

/* Conditional nodes alone. The graphs of their bodies lie in memory of the driver's, which is never given back here. */
static CUresult add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count,
                         CUgraphNodeParams *parameters) {
    word results[2];
    CUDA_CONDITIONAL_NODE_PARAMS *told = &parameters->conditional;
    CUresult code = ASK("cuGraphAddNode", ADDRESS(graph), ADDRESS(before), ADDRESS(edges), count, (word)parameters->type, told->handle,
                        (word)told->type, told->size, ADDRESS(told->ctx));
    if (code != CUDA_SUCCESS) return code;
    *node = HANDLE(CUgraphNode, results[0]);
    told->phGraph_out = malloc(sizeof *told->phGraph_out);
    told->phGraph_out[0] = HANDLE(CUgraph, results[1]);
    return code;
}

CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges,
                                   size_t count, CUgraphNodeParams *parameters) {
    return add_node(node, graph, before, edges, count, parameters);
}
#if CUDA_VERSION < 13000
CUresult CUDAAPI cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUgraphNodeParams *parameters) {
    return add_node(node, graph, before, NULL, count, parameters);
}
#endif

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *ready, CUgraph graph, unsigned long long flags) {
    word results[1];
    CUresult code = ASK("cuGraphInstantiate", ADDRESS(graph), flags);
    if (code == CUDA_SUCCESS) *ready = HANDLE(CUgraphExec, results[0]);
    return code;
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec ready, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters) {
    return ANSWER("cuGraphExecKernelNodeSetParams", ADDRESS(ready), ADDRESS(node), NODE(parameters));
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec ready, CUstream stream) { return ANSWER("cuGraphLaunch", ADDRESS(ready), ADDRESS(stream)); }

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) { return ANSWER("cuGraphDestroy", ADDRESS(graph)); }

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec ready) { return ANSWER("cuGraphExecDestroy", ADDRESS(ready)); }

/* Who asks by name and version gets the newest function that is no newer than that. */

typedef struct {
    const char *name;
    int version;
    void *function;
} Entry;

#define ENTRY(name, version) {#name, version, (void *)(PFN_##name##_v##version){name}}

CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status) {
    const Entry entries[] = {
        ENTRY(cuInit, 2000),
        ENTRY(cuGetErrorString, 6000),
        ENTRY(cuDriverGetVersion, 2020),
        ENTRY(cuDeviceGet, 2000),
        ENTRY(cuDeviceGetAttribute, 2000),
        ENTRY(cuDeviceTotalMem, 3020),
        ENTRY(cuDevicePrimaryCtxRetain, 7000),
        ENTRY(cuCtxSetCurrent, 4000),
        ENTRY(cuCtxPushCurrent, 4000),
        ENTRY(cuCtxPopCurrent, 4000),
        ENTRY(cuCtxSetLimit, 3010),
        ENTRY(cuCtxSynchronize, 2000),
        ENTRY(cuMemAlloc, 3020),
        ENTRY(cuMemFree, 3020),
        ENTRY(cuMemcpyHtoD, 3020),
        ENTRY(cuMemcpyDtoH, 3020),
        ENTRY(cuModuleLoadDataEx, 2010),
        ENTRY(cuModuleGetFunction, 2000),
        ENTRY(cuModuleGetGlobal, 3020),
        ENTRY(cuFuncSetAttribute, 9000),
        ENTRY(cuLaunchKernel, 4000),
        ENTRY(cuStreamCreate, 2000),
        ENTRY(cuStreamDestroy, 4000),
        ENTRY(cuStreamSynchronize, 2000),
        ENTRY(cuStreamWaitEvent, 3020),
        ENTRY(cuEventCreate, 2000),
        ENTRY(cuEventRecord, 2000),
        ENTRY(cuEventSynchronize, 2000),
        ENTRY(cuEventElapsedTime, 2000),
        ENTRY(cuEventDestroy, 4000),
        ENTRY(cuGraphCreate, 10000),
        ENTRY(cuGraphAddKernelNode, 12000),
        ENTRY(cuGraphConditionalHandleCreate, 12030),
#if CUDA_VERSION < 13000
        ENTRY(cuGraphAddNode, 12020),
#endif
        {"cuGraphAddNode", 12030, (void *)(PFN_cuGraphAddNode_v12030){cuGraphAddNode_v2}},
        ENTRY(cuGraphInstantiateWithFlags, 11040),
        ENTRY(cuGraphExecKernelNodeSetParams, 12000),
        ENTRY(cuGraphLaunch, 10000),
        ENTRY(cuGraphDestroy, 10000),
        ENTRY(cuGraphExecDestroy, 10000),
    };
    *function = NULL;
    for (size_t k = 0; k < sizeof entries / sizeof *entries; k++)
        if (strcmp(entries[k].name, symbol) == 0 && entries[k].version <= version) *function = entries[k].function;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) *function = NULL; /* there are none of those here */
    if (status != NULL) *status = *function == NULL ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
    return *function == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
