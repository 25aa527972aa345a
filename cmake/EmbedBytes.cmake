# add_array(NAME FILE): appends the bytes of a file to the variable `arrays`, as an array in C++.
function(add_array name file)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  set(arrays "${arrays}constexpr char ${name}[] = {${bytes}};\n" PARENT_SCOPE)
endfunction()
