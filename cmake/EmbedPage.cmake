# Writes OUTPUT, a C++ source with the files of the page in FOLDER, each also compressed:
#   cmake -D FOLDER=page/dist -D OUTPUT=page_files.cc -P EmbedPage.cmake
include(${CMAKE_CURRENT_LIST_DIR}/EmbedBytes.cmake)
set(arrays)
set(entries)

# add_file(NAME PATH TYPE)
macro(add_file name path type)
  string(MAKE_C_IDENTIFIER ${name} id)
  set(compressed ${OUTPUT}.${name}.gz)
  execute_process(COMMAND gzip -9nc ${FOLDER}/${name} OUTPUT_FILE ${compressed}
                  COMMAND_ERROR_IS_FATAL ANY)
  add_array(${id} ${FOLDER}/${name})
  add_array(${id}_gzip ${compressed})
  file(REMOVE ${compressed})
  file(SHA256 ${FOLDER}/${name} hash)
  string(SUBSTRING ${hash} 0 32 hash)
  string(APPEND entries "    {.path = \"${path}\", .type = \"${type}\",\n"
    "     .content = {${id}, sizeof(${id})}, .compressed = {${id}_gzip, sizeof(${id}_gzip)},\n"
    "     .hash = \"${hash}\"},\n")
endmacro()

add_file(index.html / "text/html; charset=utf-8")
add_file(page.css /page.css "text/css; charset=utf-8")
add_file(page.js /page.js "text/javascript; charset=utf-8")

file(WRITE ${OUTPUT} "#include \"server/http/page.h\"\n\nnamespace calibd::server {\nnamespace {\n\n"
  "${arrays}\nconstexpr PageFile kPageFiles[] = {\n${entries}};\n\n}  // namespace\n\n"
  "std::span<const PageFile> PageFiles() { return kPageFiles; }\n\n}  // namespace calibd::server\n")
